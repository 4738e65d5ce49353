package main

import "regexp"

// volatile lists the parts of outputs that differ between runs of the same binary.
var volatile = []struct {
	why     string
	pattern *regexp.Regexp
	with    string
}{
	{"folder of the interpreter", regexp.MustCompile(`(?:/[^\s"/]+)+/python3\b`), "python3"},
	{"start of a planned run", regexp.MustCompile(`"started_at": "[^"]+",(\s+"finished_at": null)`), `"started_at": "",$1`},
	{"real time", regexp.MustCompile(`"(wall_s|policy_s|solve_s)": [\d.e+-]+`), `"$1": 0`},
	{"real time", regexp.MustCompile(`((?:simulated(?: +|</dt><dd>)[\d,]+ events|decisions(?: +|</dt><dd>)[\d,]+) in|solved in(?: +|</dt><dd>)) *[\d.,]+ [a-zµ]+`), "$1"},
	{"progress, reported every few seconds", regexp.MustCompile(`(?m)^\d+ of \d+ steps, .*\n`), ""},
	{"real time, as cells of a figure", regexp.MustCompile(`"[\d.]+(?:e-\d+)? s"`), `"0 s"`},
	{"real time; curves, which have it in each row, are not written", regexp.MustCompile(`(\d steps) in [\dhm.]+s`), "$1"},
	{"real time, as rows of a comparison", regexp.MustCompile(`\{[^{}]*"metric": "solve_s"[^{}]*\}`), "{}"},
	{"real time, in Batsim's table", regexp.MustCompile(`(?m)^trainopt,.*$`), "trainopt"},
	{"version of the compiler", regexp.MustCompile(`\bgo1\.\d+(?:\.\d+)?\b`), "GO"},
}

// normalise replaces the volatile parts of an output.
func normalise(output string) string {
	for _, v := range volatile {
		output = v.pattern.ReplaceAllString(output, v.with)
	}
	return output
}
