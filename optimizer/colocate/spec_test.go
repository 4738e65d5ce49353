package colocate

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestSampleIsValid(t *testing.T) {
	s, err := ParseSpec(strings.NewReader(Sample))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.Names(), []string{"redis", "matrix", "checksum"}) || s.Warmup != 2 || s.Window != 3 || s.Apps[0].Ready.Timeout != 30 {
		t.Errorf("%+v", s)
	}
	for typ, names := range map[reflect.Type][]string{reflect.TypeFor[Spec](): keys["Spec"], reflect.TypeFor[appSpec](): keys["appSpec"],
		reflect.TypeFor[ready](): keys["ready"], reflect.TypeFor[load](): keys["load"], reflect.TypeFor[operations](): keys["operations"]} {
		for i := range typ.NumField() {
			key := typ.Field(i).Tag.Get("yaml")
			if !slices.Contains(names, key) || !strings.Contains(Sample, key+":") {
				t.Errorf("key %s of %v is not listed or not in the sample", key, typ)
			}
		}
	}
}

const minimal = "apps:\n- name: a\n  command: x\n  operations: {counter: y}\n"

func TestParseSpecRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":                  {"", "the file is empty"},
		"not YAML":               {"apps: [", "did not find expected node content"},
		"no apps":                {"window: 1s\n", "no apps"},
		"unknown key":            {"app: 1\n", `line 1: unknown key "app": nearest known is "apps"`},
		"unknown key below":      {strings.Replace(minimal, "counter", "counts_", 1), `unknown key "counts_": nearest known is "counts"`},
		"no name":                {strings.Replace(minimal, "name: a", "dir: /", 1), `app 1: name ""`},
		"bad name":               {strings.Replace(minimal, "name: a", "name: a_b", 1), `app 1: name "a_b": want letters, digits, dots and dashes`},
		"name used twice":        {minimal + minimal[6:], "app a: the name is used twice"},
		"no command":             {strings.Replace(minimal, "command: x", "command: ''", 1), "app a: no command"},
		"command of a map":       {strings.Replace(minimal, "command: x", "command: {a: b}", 1), "line 3: a command is a text or a list of texts"},
		"no operations":          {strings.Replace(minimal, "counter: y", "", 1), "app a: operations: 0 of output, end, counter and log are set, want one"},
		"two ways":               {strings.Replace(minimal, "counter: y", "counter: y, log: z", 1), "operations: 2 of"},
		"not an expression":      {strings.Replace(minimal, "counter: y", "end: '('", 1), `"(" is not a regular expression`},
		"no group":               {strings.Replace(minimal, "counter: y", "end: ops", 1), "operations: end has 0 groups, want one"},
		"two groups":             {strings.Replace(minimal, "counter: y", "output: (a)(b)", 1), "output has 2 groups"},
		"counts of nothing":      {strings.Replace(minimal, "counter: y", "counter: y, counts: each", 1), `counts "each": want total or each, beside output`},
		"match without counter":  {strings.Replace(minimal, "counter: y", "end: (a), match: (b)", 1), "match requires counter"},
		"from a missing load":    {strings.Replace(minimal, "counter: y", "output: (a), from: load", 1), "from: load: there is no load generator"},
		"load of an end program": {strings.Replace(minimal, "operations: {counter: y}", "operations: {end: (a)}\n  load: {command: z}", 1), "end cannot be combined with load"},
		"load without command":   {minimal + "  load: {cpus: 1}\n", "load: no command"},
		"bad CPUs":               {"cpus: 3-1\n" + minimal, `cpus: "3-1": want a list of CPUs`},
		"bad window":             {"window: soon\n" + minimal, `line 1: "soon": want a length of time`},
		"negative window":        {"window: -1s\n" + minimal, `"-1s": want a length of time`},
		"short window":           {"window: 1ms\n" + minimal, "want at least 100ms"},
		"two probes":             {minimal + "  ready: {command: x, output: y}\n", "ready: command and output exclude each other"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseSpec(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want %q: %v", c.want, err)
			}
		})
	}
	if _, err := ParseSpec(strings.NewReader(minimal)); err != nil {
		t.Error(err)
	}
}

func TestParseCPUs(t *testing.T) {
	for text, want := range map[string][]int{"": nil, "0": {0}, "3,0-2": {0, 1, 2, 3}, "1,1": {1}} {
		if got, err := parseCPUs(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for _, text := range []string{"a", "-1", "1-", "2-1", "9999", ","} {
		if got, err := parseCPUs(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func FuzzParseSpec(f *testing.F) {
	f.Add(Sample)
	f.Add(minimal)
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseSpec(strings.NewReader(text)); err == nil && s.Validate() != nil {
			t.Error("an accepted specification is not valid")
		}
	})
}
