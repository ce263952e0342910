# A man page: first the frame (NAME.8.in), in which a line `@HELP@` stands for what --help says, then --help itself.
#
# A line without indent that ends in ':' begins a section; lines in it with two spaces begin an item, deeper ones go on.
function roff(text) {
  gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text)
  return text ~ /^[.']/ ? "\\&" text : text
}
function put(line) { help = help line "\n" }
function close_block() { if (verbatim) put(".fi"); verbatim = 0 }
function section(name) { close_block(); put(".SH " toupper(name)) }

FNR == NR { frame = frame $0 "\n"; next }

/^Usage: / {
  section("synopsis"); put(".nf"); verbatim = 1; kind = "usage"
  sub(/^Usage: /, "")
}
/^[^ ].*:$/ || /^Examples?:/ {
  name = $0; rest = ""
  if (name ~ /^Examples?: /) { rest = name; sub(/^[^:]*: /, "", rest); name = "Examples:" }
  sub(/:$/, "", name); section(name)
  kind = name ~ /^Example/ ? "verbatim" : "items"
  if (kind == "verbatim") { put(".nf"); verbatim = 1; if (rest != "") put(roff(rest)) }
  next
}
/^$/ { if (kind == "usage") { close_block(); kind = "" } if (kind == "") paragraph = 1; if (kind == "items") kind = "after"; next }
kind == "usage" || kind == "verbatim" { sub(/^ +/, ""); put(roff($0)); next }
/^ / && (kind == "items" || kind == "after") {
  kind = "items"
  match($0, /^ */); indent = RLENGTH; text = substr($0, indent + 1)
  if (indent <= 6 && (indent < 6 || text ~ /^-/)) {
    at = match(text, /  +/)
    item = at ? substr(text, 1, at - 1) : text
    put(".TP"); put("\\fB" roff(item) "\\fR")
    if (at) put(roff(substr(text, at + RLENGTH)))
  } else put(roff(text))
  next
}
# The first line is the frame's NAME.
FNR > 1 { if (kind != "") { section("notes"); kind = "" } else if (paragraph && noted) put(".PP"); put(roff($0)); noted = 1; paragraph = 0 }

END {
  close_block()
  printf ".TH %s 8 \"%s\" \"%s\" \"System administration\"\n", toupper(title), date, source
  at = index(frame, "@HELP@\n")
  if (!at) { print "no @HELP@ in the frame" > "/dev/stderr"; exit 1 }
  printf "%s%s%s", substr(frame, 1, at - 1), help, substr(frame, at + 7)
}
