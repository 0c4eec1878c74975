cd "$(dirname "$0")"; export PYTHONUNBUFFERED=1
b="timeout 50 python3 bench.py"
( $b check d128_last d128_group d128_two d128_twogroup > $OUT/c1 2>&1 ) & ( $b check  d128_three d128_mixed > $OUT/c2 2>&1 ) &
( $b check d64_m64 d64_m64q3 d64_bulk > $OUT/c3 2>&1 ) & wait
cat $OUT/c1 $OUT/c2 $OUT/c3
{
R=:rotate=2
$b time 128 8192 0 d128_bulk$R d128_last$R d128_last d128_group$R d128_two$R d128_twogroup$R d128_three$R d128_mixed$R d128_none d128_threenone d128_nopriv d128_nostore$R d128_noprivred d128_nohalf$R d128_nohalfred$R
$b time 64 8192 0 d64_bulk d64_nohalf d64_none d64_nononoexp d64_m64 d64_m64q3 d64_m64none
} 2>&1 | tee $OUT/times
