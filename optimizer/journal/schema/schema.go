// Package schema contains the JSON schema of run.json and validates documents against it.
//
// It is separate from package journal because the program does not validate its own output: tests do, and so may a
// program that reads run.json. Its library compiles the schemas of all drafts when a process starts, a cost that the
// agent and the keeper of a job avoid.
//
//	if err := schema.Validate(data); err != nil { // lists every violation
package schema

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Record is the JSON schema (draft 2020-12) of run.json.
//
//go:embed run.schema.json
var Record []byte

var compiled = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Record))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	const name = "run.schema.json"
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	return c.Compile(name)
})

// Validate validates the text of a run.json against Record; the error lists every violation, one per line.
func Validate(data []byte) error {
	c, err := compiled()
	if err != nil {
		return fmt.Errorf("validate record: the schema itself: %w", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("validate record: not JSON: %w", err)
	}
	err = c.Validate(doc)
	if err == nil {
		return nil
	}
	v, ok := err.(*jsonschema.ValidationError)
	if !ok {
		return fmt.Errorf("validate record: %w", err)
	}
	var lines []string
	places(v.DetailedOutput(), func(line string) { lines = append(lines, line) })
	return fmt.Errorf("validate record: %s", strings.Join(lines, "\n"))
}

// places yields the innermost violations, each with its location in the document.
func places(u *jsonschema.OutputUnit, yield func(line string)) {
	if len(u.Errors) == 0 && u.Error != nil {
		at := strings.ReplaceAll(strings.TrimPrefix(u.InstanceLocation, "/"), "/", ".")
		if at == "" {
			at = "the record"
		}
		yield(at + ": " + u.Error.String())
	}
	for i := range u.Errors {
		places(&u.Errors[i], yield)
	}
}
