package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"trainopt/simulator/platform"
)

// platformsHead says where the table is from.
var platformsHead = []string{
	"Types of processors, nodes and networks, and platforms of them. Made by internal/gen platforms; its fields: see WriteTreeTable.",
	"source: HDeepRM, hdeeprm/data/*_types.json and platform_examples/*.json of github.com/RaMdsC/hdeeprm; mini is ours",
	"commit: 768150a1be7f28a91d777a33ff8c5a08c15afdc1 of 2019-10-06",
	"licence: MIT, Copyright (c) 2019 Adrián Herrera Arcila, Jose Luis Bosque Orero",
}

// platformExamples are the platforms, in the order of platform.Examples.
var platformExamples = []string{"learning", "das2", "pik", "gaia", "ricc", "mc2", "mini"}

// makePlatforms writes tree.table, the library of machine types and the example platforms, from HDeepRM's JSON files:
// types/{network,processor,node}_types.json (hdeeprm/data of the repository RaMdsC/hdeeprm) and platforms/*.json (its
// platform_examples, and mini.json, which is ours).
func makePlatforms(args []string, _ io.Writer) error {
	s, err := parseSources(args, "types and platforms of HDeepRM", "simulator/platform/tree.table", "")
	if err != nil {
		return err
	}
	library, err := platform.LoadLibrary(filepath.Join(s.data, "types"))
	if err != nil {
		return err
	}
	descriptions := map[string]*platform.Description{}
	for _, name := range platformExamples {
		content, err := os.ReadFile(filepath.Join(s.data, "platforms", name+".json"))
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
	if err := platform.WriteTreeTable(&b, library, platformExamples, descriptions, platformsHead...); err != nil {
		return err
	}
	return s.write(b.Bytes())
}
