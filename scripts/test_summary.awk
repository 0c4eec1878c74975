# Reads CTest's JUnit file; names what was skipped (with the reason that the test gave) and what failed, and closes with
# "N passed, N failed, N skipped". Exits 1 when something failed or nothing ran.

function plain(text) {  # XML's escapes undone
  gsub(/&lt;/, "<", text); gsub(/&gt;/, ">", text); gsub(/&quot;/, "\"", text); gsub(/&apos;/, "'", text)
  gsub(/&amp;/, "\\&", text)
  return text
}

function attribute(line, key) {
  return match(line, " " key "=\"[^\"]*\"") ? plain(substr(line, RSTART + length(key) + 3, RLENGTH - length(key) - 4)) : ""
}

/<testcase / {
  name = attribute($0, "name"); status = attribute($0, "status"); reason = ""; spoilt = 0; take_next = 0
}
# A test that could not be started is "notrun", as a skipped one is.
/<skipped / { if (attribute($0, "message") !~ /^SKIP_/) spoilt = 1 }
/^\[  FAILED  \]/ { spoilt = 1 }  # a failure comes first, even when the test went on to skip itself
take_next { if (reason == "") reason = plain($0); take_next = 0 }
/: Skipped$/ { take_next = 1 }
/skipped: / { text = plain($0); sub(/.*skipped: /, "", text); if (reason == "") reason = text }

/<\/testcase>/ {
  sub(/<\/system-out>.*/, "", reason)
  if (status == "run") ++passed
  else if (status == "notrun" && !spoilt) skips[++skipped] = name (reason == "" ? "" : ": " reason)
  else if (status == "disabled") skips[++skipped] = name ": disabled"
  else fails[++failed] = name
}

END {
  for (i = 1; i <= skipped; ++i) print "skipped: " skips[i]
  for (i = 1; i <= failed; ++i) print "FAILED: " fails[i]
  printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
  exit failed > 0 || passed == 0
}
