package inspect

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestShellScriptIsNotExecuted: whatever a script contains, reading it executes, writes and waits for nothing, and ends soon.
func TestShellScriptIsNotExecuted(t *testing.T) {
	dir := t.TempDir()
	keep := filepath.Join(dir, "keep")
	if err := os.WriteFile(keep, []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	defer goleak.VerifyNone(t)
	many := func(piece string) string { return strings.Repeat(piece, (maxScript-1<<14)/len(piece)) }
	for name, src := range map[string]string{
		"fork bomb":        ":(){ :|:& };:",
		"redirections":     "echo x > new\n: > keep\n> keep\ncat < /dev/zero > new 2>&1\nexec > new 3<> other",
		"removal":          "rm -rf .\nrm -rf \"$PWD\"/*\nfind . -delete",
		"the process":      "kill -9 $$\nkill -9 $PPID\nexec false\nexit 3\ntrap 'touch new' EXIT ERR DEBUG\nulimit -t 0\numask 777",
		"endless loops":    "while true; do :; done\nuntil false; do :; done\nwhile ! ssh host true; do sleep 1; done\nfor ((;;)); do :; done",
		"input":            "read X\ncat\ncat /dev/zero\nselect x in a b; do echo; done\nmapfile A",
		"substitutions":    "X=$(touch new; cat /dev/zero)\ncat <(touch new) > >(tee new)\nY=`touch new`\n$(<keep)\n: ${X:=$(touch new)}",
		"background":       "touch new & coproc touch new\nwait\n(touch new; sleep 1000) &",
		"other code":       "source ./keep\n. ./keep\neval 'touch new'\neval \"eval 'eval touch new'\"\nbash -c 'touch new'",
		"here-document":    "cat <<E > new\n" + strings.Repeat("text $(touch new) $X\n", 1<<19) + "E\n",
		"recursion":        "f() { f; f; }\nf\neval 'f() { eval \"$x\"; }'\nx='eval \"$x$x\"'\neval \"$x\"",
		"growth":           "A=aaaaaaaaaaaaaaaa\n" + many("A=$A$A; B=\"${A//a/$A}\"; C+=($A \"${C[@]}\")\n"),
		"one long word":    "A=" + strings.Repeat("a", 1<<13) + "\nB=" + many("$A"),
		"replacement":      "A=" + strings.Repeat("a", 1<<13) + "\n" + many("B=${A//a/"+strings.Repeat("b", 60)+"}\n"),
		"braces":           "echo {1..1000000000} {1..1000000000}{1..1000000000}\nA=(" + many("{a,b}") + ")\n" + strings.Repeat("echo {a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}\n", 100),
		"arithmetic":       "A=$((9**9**9**9))\n((A=9**99999999))\nB=${A[9**99999999]}\nC[99999999999]=1\necho ${@:9**99999999} $((A[$(touch new)]))",
		"indirect":         "A=B\nB=A\necho ${!A} ${!B*} $((A)) ${A[A]} ${A@Q} ${A@P} ${A@X} ${A^^}\ndeclare -n A=A\necho $A",
		"commands":         many("a;"),
		"parentheses":      many("(\n"),
		"substitution":     many("$(\n"),
		"arithmetic deep":  many("$(("),
		"braces deep":      many("{\n"),
		"ternary":          "((" + many("a?b:"),
		"assignments":      "((" + many("a="),
		"negation":         "((" + many("- "),
		"conditions":       many("if\n"),
		"conjunction":      many("a&&"),
		"pipes":            many("a|"),
		"defaults":         many("${a:-\n"),
		"hidden depth":     many("(\")\""),
		"hidden depth 2":   many("$((\")\"+("),
		"tests":            "[[ " + many("! "),
		"quotes":           many("\"$(\""),
		"backquotes":       many("`"),
		"errors":           many(")\n"),
		"errors at end":    strings.Repeat("a 'b\n", 1<<16),
		"here-documents":   many("cat <<E\n"),
		"variables":        many("export A$RANDOM=1 B=2\n"),
		"case":             many("case a in a)\n"),
		"arrays":           many("a=(\n"),
		"not text":         many("\xff\x00\x01\x02$"),
		"carriage returns": many("a \r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			start := threadTime(t)
			shellCommands(src, dir, []string{"1", "a b"}, nil)
			if d := threadTime(t) - start; d > 5*time.Second {
				t.Errorf("took %v of processor time", d)
			} else {
				t.Log(d)
			}
			if data, err := os.ReadFile(keep); string(data) != "1" {
				t.Errorf("changed a file: %q %v", data, err)
			}
			if made, _ := os.ReadDir(dir); len(made) != 1 {
				t.Errorf("made %v", made)
			}
		})
	}
}

// TestShellCommands checks the commands that single constructs yield.
func TestShellCommands(t *testing.T) {
	for src, want := range map[string]string{
		"python t.py > log 2>&1 &\nwait":              "python t.py; wait",
		"cat <<E\npython t.py\nE\npython u.py":        "cat; python u.py",
		"N=a.b.py\npython ${N%.*} ${N##*.} ${#N}":     "python a.b py 6",
		"python {a,b}.py":                             "python a.py b.py",
		"A=(x y)\npython ${A[1]} ${#A[@]} ${A[@]:1}":  "python y 2 y",
		"A=(x $(y))\npython ${#A[@]} z":               "python ? z",
		"A=$(y)\npython ${A%x} ${A:1} ${#A} z":        "python ? ? ? z",
		"A=b\nB=A\npython ${!B}":                      "python b",
		"python $((1 + 2)) <(x)":                      "python ? ?",
		"[[ a == b || -z \"\" ]] && python t.py":      "python t.py",
		"[[ a == b && -z \"\" ]] && python t.py":      "",
		"python a.py\nif x\npython b.py\n)\npython c": "python a.py; python b.py; python c",
		"A=1 exec python t.py":                        "A=1 python t.py",
		"time python t.py | tee x":                    "python t.py; tee x",
		"A=()\npython \"$@\" \"${A[@]}\" \"$B\"":      "python ",
		"python $(seq 0 7) $(dirname $0)/t.py":        "python ? dir/t.py",
		"(cd x && python t.py)":                       "cd x; python t.py",
	} {
		var got []string
		for _, c := range shellCommands(src, "dir", nil, nil) {
			got = append(got, strings.ReplaceAll(strings.Join(c.words, " "), unknown, "?"))
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("%q: %q, want %q", src, text, want)
		}
	}
	for _, src := range []string{"for x in a b; do python t.py; done", "while x; do\npython t.py\ndone", "while python t.py; do :; done", "until x; do (python t.py); done", "for ((i=0;i<3;i++)); do python t.py; done"} {
		if c := shellCommands(src, "dir", nil, nil); !slices.ContainsFunc(c, func(l shellLine) bool { return l.words[0] == "python" && l.loop }) {
			t.Errorf("%q: no command in a loop in %+v", src, c)
		}
	}
}
