# cmake -DINPUT=file -DOUTPUT=list -P embed_file.cmake: writes the bytes of a file as a comma-separated list that
# initializes a char array, with a zero byte at the end.
file(READ ${INPUT} hex HEX)
string(REGEX REPLACE "(................................................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
file(WRITE ${OUTPUT} "${bytes}'\\0'\n")
