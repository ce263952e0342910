# A man page of a default configuration file: comments, and `#key = value` after what they say.
function roff(text) {
  gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text)
  return text ~ /^[.']/ ? "\\&" text : text
}
function flush_paragraph() {
  if (said == "") return
  print ".PP"; printf "%s", said
  said = ""
}
BEGIN {
  daemon = settings; sub(/\.toml$/, "", daemon)
  printf ".TH MUSTER-%s 5 \"%s\" \"%s\" \"File formats\"\n", toupper(settings), date, source
  printf ".SH NAME\nmuster\\-%s \\- settings of %s\n", roff(settings), roff(program)
  printf ".SH SYNOPSIS\n/etc/muster/%s\n.SH DESCRIPTION\n", settings
}
/^\[/ { flush_paragraph(); print ".SH " $0; next }
/^#?[a-z_]+ = / {
  line = $0; sub(/^#/, "", line)
  print ".TP"; print "\\fB" roff(line) "\\fR"
  printf "%s", said
  said = ""
  next
}
/^# / { sub(/^# /, ""); said = said roff($0) "\n"; next }
/^$/ { flush_paragraph() }
END { flush_paragraph(); printf ".SH SEE ALSO\n.BR %s (8)\n", program }
