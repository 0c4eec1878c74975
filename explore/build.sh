# builds the library of variants.h and copies what travels; build.sh DEST
set -e
nvcc -std=c++20 -O3 -gencode=arch=compute_90a,code=sm_90a -I../templates -Xptxas -v -Xcompiler -fPIC -shared -cudart static -o libbwd.so lib.cu 2>&1 | grep -E "error|warning|C75|spill|Used" | sed 's/in the function.*//' | sort | uniq -c
strip libbwd.so
if [ -n "$1" ]; then mkdir -p "$1"; cp libbwd.so bench.py "$1"; fi
