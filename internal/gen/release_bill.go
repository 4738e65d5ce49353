package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// component is a part of the bill of materials.
type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref  string   `json:"ref"`
	Uses []string `json:"dependsOn,omitempty"`
}

// billOfMaterials returns the modules that a binary contains, as it records them itself, in CycloneDX 1.5.
func billOfMaterials(binary string, r release) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	id := sum[:16]
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of version 8: derived from content
	program := component{Type: "application", Ref: "optimize", Name: "optimize", Version: r.version, Hashes: []hash{{"SHA-256", fmt.Sprintf("%x", sha256.Sum256(data))}},
		Properties: []property{{"go:module", info.Main.Path}, {"commit", r.commit}}}
	std := component{Type: "library", Ref: "std", Name: "std", Version: strings.TrimPrefix(info.GoVersion, "go"),
		PURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}
	components, refs := []component{std}, []string{std.Ref}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		ref := m.Path + "@" + m.Version
		components = append(components, component{Type: "library", Ref: ref, Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + ref,
			Properties: []property{{"go:sum", m.Sum}}})
		refs = append(refs, ref)
	}
	return json.MarshalIndent(struct {
		Format       string       `json:"bomFormat"`
		Spec         string       `json:"specVersion"`
		Serial       string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     any          `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}{"CycloneDX", "1.5", fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16]), 1,
		map[string]any{"timestamp": r.date.Format(time.RFC3339), "component": program}, components, []dependency{{program.Ref, refs}}}, "", "  ")
}
