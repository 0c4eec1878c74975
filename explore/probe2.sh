# registers and spills of one configuration: probe.sh "128, 64, 128, 2, 2, false, DqOut::red, true, false, false"
echo "#define CFG $1" > /tmp/probe_cfg.h
nvcc -std=c++20 -gencode=arch=compute_90a,code=sm_90a -I../templates -Xptxas -v -cubin -o /tmp/probe.cubin probe2.cu 2>&1 | grep -E "error|C75|spill|Used" | sed 's/in the function.*//;s/in function.*//'
