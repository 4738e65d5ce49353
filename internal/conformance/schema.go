package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// recordSchema is the path of the JSON schema of run.json in the repository.
const recordSchema = "optimizer/journal/run.schema.json"

// readRecordSchema returns the JSON schema (draft 2020-12) of run.json. It finds the repository above the working
// directory, which is that of the tested package.
func readRecordSchema() ([]byte, error) {
	dir, err := os.Getwd()
	for err == nil {
		data, missing := os.ReadFile(filepath.Join(dir, recordSchema))
		if !errors.Is(missing, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return data, missing
		}
		dir = filepath.Dir(dir)
	}
	return nil, err
}

var compiledSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	text, err := readRecordSchema()
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(recordSchema, doc); err != nil {
		return nil, err
	}
	return c.Compile(recordSchema)
})

// ValidateRecord validates the text of a run.json against its schema; the error lists every violation, one per line. It is
// for tests: the program does not validate its own output.
func ValidateRecord(data []byte) error {
	c, err := compiledSchema()
	if err != nil {
		return fmt.Errorf("validate record: the schema itself: %w", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("validate record: not JSON: %w", err)
	}
	err = c.Validate(doc)
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return err
	}
	var lines []string
	violations(v.DetailedOutput(), func(line string) { lines = append(lines, line) })
	return fmt.Errorf("validate record: %s", strings.Join(lines, "\n"))
}

// violations yields the innermost violations, each with its location in the document.
func violations(u *jsonschema.OutputUnit, yield func(line string)) {
	if len(u.Errors) == 0 && u.Error != nil {
		at := strings.ReplaceAll(strings.TrimPrefix(u.InstanceLocation, "/"), "/", ".")
		if at == "" {
			at = "the record"
		}
		yield(at + ": " + u.Error.String())
	}
	for i := range u.Errors {
		violations(&u.Errors[i], yield)
	}
}
