package journal

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestNote(t *testing.T) {
	dir := t.TempDir()
	if n, err := ReadNote(dir); err != nil || n.Text != "" || n.Tags != nil {
		t.Errorf("without a note: %+v %v", n, err)
	}
	if err := (Note{Tags: []string{" b ", "a", "b", "", "two  words"}, Text: " line\r\nline "}).Write(dir); err != nil {
		t.Fatal(err)
	}
	n, err := ReadNote(dir)
	if err != nil || !slices.Equal(n.Tags, []string{"a", "b", "two words"}) || n.Text != "line\nline" || n.Schema != 1 {
		t.Errorf("%+v %v", n, err)
	}
	for name, bad := range map[string]Note{
		"long tag": {Tags: []string{strings.Repeat("x", maxTag+1)}}, "comma": {Tags: []string{"a,b"}}, "control": {Tags: []string{"a\x00b"}}, "not UTF-8": {Text: "\xff"},
		"long text": {Text: strings.Repeat("x", maxNoteText+1)}, "many tags": {Tags: strings.Split("a b c d e f g h i j k l m n o p q r s t u", " ")},
	} {
		if err := bad.Write(dir); err == nil || !strings.HasPrefix(err.Error(), "write note of run ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after, _ := ReadNote(dir); after.Text != n.Text {
		t.Error("a refused note replaced the old one")
	}
	if err := os.WriteFile(filepath.Join(dir, noteFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadNote(dir); err == nil {
		t.Error("a damaged note is not an error")
	}
}
