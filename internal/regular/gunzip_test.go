package regular

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
)

func TestGunzip(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte("text"))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ in, want string }{
		"plain": {"text", "text"}, "packed": {packed.String(), "text"}, "empty": {"", ""}, "one byte": {"\x1f", "\x1f"},
	} {
		r, err := Gunzip(strings.NewReader(c.in))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != c.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
	if _, err := Gunzip(strings.NewReader("\x1f\x8b\x00")); err == nil || !strings.Contains(err.Error(), "unpack: ") {
		t.Errorf("a damaged head: %v", err)
	}
}
