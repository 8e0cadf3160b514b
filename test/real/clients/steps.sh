# What the command-line clients share (sourced): the plan of a run from the environment, and steps that
# print one line each, as steps.py does.
set -u
: "${LAB_ENDPOINT:?}" "${LAB_ACCESS_KEY:?}" "${LAB_SECRET_KEY:?}" "${LAB_BUCKET:?}" "${LAB_FOLDER:?}"
B=$LAB_BUCKET F=$LAB_FOLDER CA=${LAB_CA_FILE:-} COUNT=0
export HOME=$F NO_COLOR=1 LC_ALL=C.UTF-8
cd "$F" || exit 1

step() { # name, function, arguments...
  local name=$1 out status; shift
  COUNT=$((COUNT + 1))
  # Not as a condition: the function must stop at its first command that fails.
  out=$(set -e; "$@" 2>&1 </dev/null)
  status=$?
  if [ "$status" = 0 ]; then echo "ok $name"; else echo "FAIL $name ($status) $(printf '%s' "$out" | tr '\n' ' ' | tail -c 400)"; fi
}
end() { echo "end $COUNT"; }

make_bytes() { # file, bytes, seed: pseudo-random and the same for the same seed
  openssl enc -aes-128-ctr -K "$(printf '%s' "$3" | sha256sum | head -c 32)" -iv 00000000000000000000000000000000 -in /dev/zero 2>/dev/null | head -c "$2" >"$1"
}
# The key of an object that stays: whoever reads it from the cluster can tell whether it is whole.
kept() { echo "kept/$(sha256sum <"$1" | head -c 64)/$2"; }
same() { cmp "$1" "$2"; }
says() { # text, command...: the command fails and its output holds the text
  local text=$1 out; shift
  if out=$("$@" 2>&1); then echo "succeeded, wanted $text"; return 1; fi
  case $out in *"$text"*) ;; *) echo "said $out, wanted $text"; return 1 ;; esac
}
holds() { # text, wanted
  case $1 in *"$2"*) ;; *) echo "got $1, wanted $2"; return 1 ;; esac
}
is() { # got, wanted
  [ "$1" = "$2" ] || { echo "got $1, wanted $2"; return 1; }
}
fetch() { curl -sS ${CA:+--cacert "$CA"} "$@"; }

make_bytes 0.bin 0 zero; make_bytes 1.bin 1 one; make_bytes 8k.bin 8192 small
make_bytes 1m.bin 1048576 medium; make_bytes large.bin 12582917 large
mkdir -p "tree/a b" "tree/naïve/日本語"
cp 8k.bin "tree/a b/c d.txt"; cp 1.bin "tree/plus+sign"; cp 8k.bin "tree/naïve/日本語/🗝"
cp 1.bin "tree/100%25 sure %zz"; cp 0.bin "tree/empty"; cp 8k.bin "tree/quote'(x)!&=#;,@\$"
