# Reads CTest's JUnit file, lists the skipped tests with their reasons and the failed tests with the end of their output, and
# ends with "N passed, N failed, N skipped". Exits with 1 if a test failed or none ran.

BEGIN { shown = 40 }  # lines of a failed test's output

function plain(text) {  # replaces XML escapes
  gsub(/&lt;/, "<", text); gsub(/&gt;/, ">", text); gsub(/&quot;/, "\"", text); gsub(/&apos;/, "'", text)
  gsub(/&amp;/, "\\&", text)
  return text
}

function attribute(line, key) {
  return match(line, " " key "=\"[^\"]*\"") ? plain(substr(line, RSTART + length(key) + 3, RLENGTH - length(key) - 4)) : ""
}

/<testcase / {
  name = attribute($0, "name"); status = attribute($0, "status"); reason = ""; spoilt = 0; take_next = 0; lines = 0
}
{
  text = $0
  if (sub(/.*<system-out>/, "", text)) lines = 0
  sub(/<\/system-out>.*/, "", text)
  if (text ~ /[^ \t]/ && text !~ /<\/testcase>/) output[lines++ % shown] = text
}
# CTest reports "notrun" for a test that could not be started and for a skipped one.
/<skipped / { if (attribute($0, "message") !~ /^SKIP_/) spoilt = 1 }
/^\[  FAILED  \]/ { spoilt = 1 }  # a test that failed and then skipped itself has failed
take_next { if (reason == "") reason = plain($0); take_next = 0 }
/: Skipped$/ { take_next = 1 }
/skipped: / { text = plain($0); sub(/.*skipped: /, "", text); if (reason == "") reason = text }

/<\/testcase>/ {
  sub(/<\/system-out>.*/, "", reason)
  if (status == "run") ++passed
  else if (status == "notrun" && !spoilt) skips[++skipped] = name (reason == "" ? "" : ": " reason)
  else if (status == "disabled") skips[++skipped] = name ": disabled"
  else {
    fails[++failed] = name
    for (i = lines > shown ? lines - shown : 0; i < lines; ++i) outputs[failed] = outputs[failed] "\n  " plain(output[i % shown])
  }
}

END {
  for (i = 1; i <= skipped; ++i) print "skipped: " skips[i]
  for (i = 1; i <= failed; ++i) print "the end of the output of " fails[i] ":" outputs[i]
  for (i = 1; i <= failed; ++i) print "FAILED: " fails[i]
  printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
  exit failed > 0 || passed == 0
}
