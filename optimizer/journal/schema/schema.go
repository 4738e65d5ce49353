// Package schema is the JSON schema of run.json, and checks a text against it.
//
// It is not part of package journal, because the program itself never checks what it writes: tests do, and so may a
// program that reads run.json. Its library compiles the schemas of all drafts when a process starts, which the agent and
// the keeper of a job should not pay for.
//
//	if err := schema.Validate(data); err != nil { // every place that does not fit
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

// Validate checks the text of a run.json against Record; the error lists every place that does not
// fit, one a line.
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

// places yields the innermost complaints, each with where it is in the document.
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
