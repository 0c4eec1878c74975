cd "$(dirname "$0")"; export PYTHONUNBUFFERED=1
b="timeout 40 python3 bench.py"
for d in d64 d128; do for n in early defer both fetch; do ( $b check ${d}_$n ${d}_${n}_causal > /tmp/c_${d}_$n 2>&1 ) & done; done; wait
cat /tmp/c_* | tee $OUT/checks | grep -v cudnn | grep -v ok
grep -c ok $OUT/checks
{
R=:rotate=2
$b time 128 8192 0 d128_base$R d128_ahead$R d128_early$R d128_defer$R d128_both$R d128_fetch$R d128_both3$R d128_nodq
$b time 128 8192 1 d128_base_causal d128_both_causal d128_fetch_causal
$b time 64 8192 0 d64_base:rotate=1 d64_ahead:rotate=1 d64_both:rotate=1 d64_both d64_fetch:rotate=1
$b time 64 8192 1 d64_base_causal d64_both_causal d64_fetch_causal
$b time 128 2048 1 d128_base_causal d128_both_causal d128_fetch_causal d128_both_causal:parts=2
$b time 64 2048 0 d64_base d64_both d64_fetch d64_both:parts=2
} 2>&1 | tee $OUT/times
