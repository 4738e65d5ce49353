package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"trainopt/internal/regular"
)

// noteFile contains the user's tags and text of a run.
const noteFile = "note.json"

// Limits of a note.
const (
	maxNoteText = 8 << 10 // bytes
	maxTags     = 20
	maxTag      = 40 // characters
)

// Note contains the tags and the text that the user gave to a run. The zero Note is none.
type Note struct {
	Schema int      `json:"schema"`
	Tags   []string `json:"tags"` // sorted, without duplicates
	Text   string   `json:"text"`
}

// ReadNote returns the note of a run directory; a run without a note has the zero Note.
func ReadNote(dir string) (Note, error) {
	var n Note
	data, err := regular.ReadFile(filepath.Join(dir, noteFile), 8*maxNoteText)
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &n)
	}
	if err != nil {
		return Note{}, fmt.Errorf("read note of run %s: %w", filepath.Base(dir), err)
	}
	return n, nil
}

// Write replaces the note of a run directory. Tags lose surrounding blanks and duplicates; the error names a tag or
// a text that is too long.
func (n Note) Write(dir string) error {
	n.Schema = Schema
	n.Text = strings.TrimSpace(strings.ReplaceAll(n.Text, "\r\n", "\n"))
	tags := []string{}
	for _, t := range n.Tags {
		if t = strings.Join(strings.Fields(t), " "); t != "" {
			tags = append(tags, t)
		}
	}
	slices.Sort(tags)
	n.Tags = slices.Compact(tags)
	fail := func(format string, args ...any) error {
		return fmt.Errorf("write note of run %s: %w", filepath.Base(dir), fmt.Errorf(format, args...))
	}
	switch {
	case len(n.Text) > maxNoteText:
		return fail("text of %d bytes, at most %d", len(n.Text), maxNoteText)
	case !utf8.ValidString(n.Text):
		return fail("text is not UTF-8")
	case len(n.Tags) > maxTags:
		return fail("%d tags, at most %d", len(n.Tags), maxTags)
	}
	for _, t := range n.Tags {
		if utf8.RuneCountInString(t) > maxTag || strings.Contains(t, ",") || !utf8.ValidString(t) || strings.IndexFunc(t, unicode.IsControl) >= 0 {
			return fail("tag %q: want at most %d printable characters without a comma", t, maxTag)
		}
	}
	data, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return fail("%w", err)
	}
	if err := replace(disk{}, filepath.Join(dir, noteFile), append(data, '\n')); err != nil {
		return fail("%w", err)
	}
	return nil
}
