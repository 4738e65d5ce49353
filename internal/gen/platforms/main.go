// Command platforms writes tree.table, the embedded library of machine types and example platforms, from HDeepRM's JSON
// files:
//
//	go run ./internal/gen/platforms --data FOLDER [--out FILE]
//
// FOLDER contains types/{network,processor,node}_types.json (hdeeprm/data of the repository RaMdsC/hdeeprm) and
// platforms/*.json (its platform_examples, and this project's mini.json).
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"trainopt/simulator/platform"
)

// head is the header of the table, which states its source.
var head = []string{
	"Types of processors, nodes and networks, and platforms of them. Made by internal/gen/platforms; its fields: see WriteTreeTable.",
	"source: HDeepRM, hdeeprm/data/*_types.json and platform_examples/*.json of github.com/RaMdsC/hdeeprm; mini is ours",
	"commit: 768150a1be7f28a91d777a33ff8c5a08c15afdc1 of 2019-10-06",
	"licence: MIT, Copyright (c) 2019 Adrián Herrera Arcila, Jose Luis Bosque Orero",
}

// examples lists the platforms in the order of platform.Examples.
var examples = []string{"learning", "das2", "pik", "gaia", "ricc", "mc2", "mini"}

func main() {
	data := flag.String("data", "", "folder with types and platforms")
	out := flag.String("out", "simulator/platform/tree.table", "file to write")
	flag.Parse()
	if err := run(*data, *out); err != nil {
		fmt.Fprintln(os.Stderr, "make the table of platforms:", err)
		os.Exit(1)
	}
}

// run parses the types and platforms, builds every platform once to validate it, and writes the table.
func run(data, out string) error {
	if data == "" {
		return errors.New("--data FOLDER is missing")
	}
	library, err := platform.LoadLibrary(filepath.Join(data, "types"))
	if err != nil {
		return err
	}
	descriptions := map[string]*platform.Description{}
	for _, name := range examples {
		content, err := os.ReadFile(filepath.Join(data, "platforms", name+".json"))
		if err != nil {
			return err
		}
		d, err := platform.ParseDescription(bytes.NewReader(content))
		if err != nil {
			return fmt.Errorf("platform %s: %w", name, err)
		}
		if _, err := library.Build(d); err != nil {
			return fmt.Errorf("platform %s: %w", name, err)
		}
		descriptions[name] = d
	}
	var b bytes.Buffer
	if err := platform.WriteTreeTable(&b, library, examples, descriptions, head...); err != nil {
		return err
	}
	return os.WriteFile(out, b.Bytes(), 0o644)
}
