# A shell's completion script of what --help says: options in lines that begin with one, first words after [OPTIONS] in
# Usage or under `Commands:`, second words under `Verbs of FIRST:`.
function words(list, count,    text, i) { for (i = 1; i <= count; i++) text = text (i > 1 ? " " : "") list[i]; return text }
function quoted(text) { gsub(/'/, "'\\''", text); return text }

/^Usage: / || usage {
  usage = NF > 0
  if (match($0, /\[OPTIONS\] [a-z]+/)) {
    verb = substr($0, RSTART, RLENGTH); sub(/.* /, "", verb)
    if (!(verb in known)) { known[verb] = 1; verbs[++verb_count] = verb }
  }
  next
}
/^[^ ].*:$/ { heading = $0; sub(/:$/, "", heading); next }
/^ +-/ {
  text = $0; sub(/^ +/, "", text)
  at = match(text, /  +/)
  about = at ? substr(text, at + RLENGTH) : ""
  if (at) text = substr(text, 1, at - 1)
  n = split(text, part, /[ ,]+/)
  count++
  for (i = 1; i <= n; i++) {
    if (part[i] ~ /^--/) long[count] = part[i]
    else if (part[i] ~ /^-/) short[count] = part[i]
    else { value[count] = part[i]; gsub(/[<>]/, "", value[count]); gsub(/:/, "_", value[count]) }
  }
  sub(/ \[default.*/, "", about); sub(/ \(default.*/, "", about)
  tell[count] = about
  next
}
heading == "Commands" && /^  [a-z]/ { if (!($1 in known)) { known[$1] = 1; verbs[++verb_count] = $1 } }
heading ~ /^Verbs of / && /^  [a-z]/ {
  parent = heading; sub(/^Verbs of /, "", parent)
  if (!(parent in seconds)) parents[++parent_count] = parent
  seconds[parent] = seconds[parent] (seconds[parent] == "" ? "" : " ") $1
}

END {
  if (!count) { print "no options in " program " --help" > "/dev/stderr"; exit 1 }
  if (shell == "bash") bash(); else if (shell == "zsh") zsh(); else fish()
}

function bash(    i, name, files, folders, others, all) {
  name = program; gsub(/-/, "_", name)
  for (i = 1; i <= count; i++) {
    all = all (i > 1 ? " " : "") (short[i] != "" ? short[i] (long[i] != "" ? " " : "") : "") long[i]
    both = short[i] (short[i] != "" && long[i] != "" ? " | " : "") long[i]
    if (value[i] == "DIR") folders = folders (folders == "" ? "" : " | ") both
    else if (value[i] == "FILE" || value[i] == "PATH") files = files (files == "" ? "" : " | ") both
    else if (value[i] != "") others = others (others == "" ? "" : " | ") both
  }
  print "_" name "() {"
  print "  local current=${COMP_WORDS[COMP_CWORD]} word first= words="
  print "  COMPREPLY=()"
  print "  case ${COMP_WORDS[COMP_CWORD - 1]} in"
  if (files != "") print "    " files ") mapfile -t COMPREPLY < <(compgen -f -- \"$current\"); return ;;"
  if (folders != "") print "    " folders ") mapfile -t COMPREPLY < <(compgen -d -- \"$current\"); return ;;"
  if (others != "") print "    " others ") return ;;"
  print "  esac"
  print "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do"
  print "    case $word in " alternatives() ") first=$word ;; esac"
  print "  done"
  print "  case $first in"
  print "    '') words='" words(verbs, verb_count) "' ;;"
  for (i = 1; i <= parent_count; i++) print "    " parents[i] ") words='" seconds[parents[i]] "' ;;"
  print "  esac"
  print "  mapfile -t COMPREPLY < <(compgen -W \"$words " all "\" -- \"$current\")"
  print "}"
  print "complete -o filenames -F _" name " " program
}
function alternatives(    text, i) { for (i = 1; i <= verb_count; i++) text = text (i > 1 ? " | " : "") verbs[i]; return text }

function zsh(    i, about, kind, form) {
  print "#compdef " program
  print "_arguments -s \\"
  for (i = 1; i <= count; i++) {
    about = quoted(tell[i]); gsub(/[\[\]:]/, " ", about)
    kind = ""
    if (value[i] != "") kind = ":" value[i] ":" (value[i] == "DIR" ? "_files -/" : value[i] ~ /^(FILE|PATH)$/ ? "_files" : "")
    if (short[i] != "" && long[i] != "") form = "'(" short[i] " " long[i] ")'{" short[i] "," long[i] "}'"
    else form = "'" short[i] long[i]
    print "  " form "[" about "]" kind "' \\"
  }
  print "  '1:verb:(" words(verbs, verb_count) ")' \\"
  printf "  '2:what:{case $words[2] in"
  for (i = 1; i <= parent_count; i++) printf " %s) compadd %s;;", parents[i], seconds[parents[i]]
  print " *) _files;; esac}'"
}

function fish(    i, line) {
  print "complete -c " program " -f"
  for (i = 1; i <= count; i++) {
    line = "complete -c " program
    if (short[i] != "") line = line " -s " substr(short[i], 2)
    if (long[i] != "") line = line " -l " substr(long[i], 3)
    if (value[i] == "DIR") line = line " -x -a '(__fish_complete_directories)'"
    else if (value[i] ~ /^(FILE|PATH)$/) line = line " -r -F"
    else if (value[i] != "") line = line " -x"
    about = tell[i]; gsub(/\\/, "\\\\", about); gsub(/'/, "\\'", about)
    print line " -d '" about "'"
  }
  print "complete -c " program " -n __fish_use_subcommand -a '" words(verbs, verb_count) "'"
  for (i = 1; i <= parent_count; i++)
    print "complete -c " program " -n '__fish_seen_subcommand_from " parents[i] "' -a '" seconds[parents[i]] "'"
}
