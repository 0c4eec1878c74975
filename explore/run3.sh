cd "$(dirname "$0")"; export PYTHONUNBUFFERED=1
timeout 100 ncu --clock-control none --set full --import-source no -k regex:fused -o $OUT/rep python3 bench.py once 128 8192 0 d128_two:rotate=2 d128_none > $OUT/ncu.log 2>&1
ncu --import $OUT/rep.ncu-rep --page details > $OUT/details.txt 2>&1
ncu --import $OUT/rep.ncu-rep --page source --print-source sass --csv > $OUT/source.csv 2>&1 || ncu --import $OUT/rep.ncu-rep --page source --csv > $OUT/source.csv 2>&1
ncu --import $OUT/rep.ncu-rep --page raw --csv > $OUT/raw.csv 2>&1
tail -3 $OUT/ncu.log; grep -E "fused|Duration|SM Frequency|Elapsed Cycles|Compute \(SM\) Throughput|L1/TEX|L2 Cache Thr|Executed Ipc|No Elig" $OUT/details.txt; ls -la $OUT
