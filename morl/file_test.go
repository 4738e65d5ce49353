package morl_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"testing"

	"trainopt/morl"
)

func smallFile(t testing.TB) []byte {
	t.Helper()
	s := morl.Shape{State: 3, Actions: 2, Objectives: []string{"a", "b"}}
	c := morl.Config{Hidden: []int{4}}
	a, err := morl.New("conditioned", s, c, 1)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := morl.WriteFile(&b, morl.Meta{Agent: "conditioned", Env: "test", Shape: s, Config: c, Seed: 1, Notes: map[string]string{"k": "v"}}, a); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestAgentFileRoundTrip(t *testing.T) {
	data := smallFile(t)
	m, a, err := morl.ReadFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := morl.WriteFile(&again, m, a); err != nil || !bytes.Equal(again.Bytes(), data) {
		t.Errorf("read and written again: %d bytes, were %d, %v", again.Len(), len(data), err)
	}
	if m.Notes["k"] != "v" || m.Env != "test" {
		t.Errorf("description %+v", m)
	}
}

// crafted returns a file with a valid checksum around any description.
func crafted(version uint32, m morl.Meta) []byte {
	meta, _ := json.Marshal(m)
	var b bytes.Buffer
	b.WriteString("optimize agent\n")
	for _, n := range []uint32{version, uint32(len(meta)), 0} {
		binary.Write(&b, binary.LittleEndian, n)
	}
	b.Write(meta)
	sum := sha256.Sum256(b.Bytes())
	b.Write(sum[:])
	return b.Bytes()
}

func TestAgentFilesThatAreRefused(t *testing.T) {
	good := smallFile(t)
	s := morl.Shape{State: 3, Actions: 2, Objectives: []string{"a", "b"}}
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"empty":           {nil, morl.ErrForeign},
		"text":            {[]byte("hello, this is not an agent file at all, is it?"), morl.ErrForeign},
		"cut off":         {good[:len(good)-1], morl.ErrCorrupt},
		"newer":           {crafted(morl.FileVersion+1, morl.Meta{Agent: "conditioned", Shape: s}), morl.ErrNewer},
		"unknown kind":    {crafted(morl.FileVersion, morl.Meta{Agent: "oracle", Shape: s}), morl.ErrForeign},
		"enormous layer":  {crafted(morl.FileVersion, morl.Meta{Agent: "conditioned", Shape: s, Config: morl.Config{Hidden: []int{1 << 30}}}), morl.ErrCorrupt},
		"many critics":    {crafted(morl.FileVersion, morl.Meta{Agent: "conditioned", Shape: s, Config: morl.Config{Critics: 1 << 30}}), morl.ErrCorrupt},
		"enormous state":  {crafted(morl.FileVersion, morl.Meta{Agent: "conditioned", Shape: morl.Shape{State: 1 << 30, Actions: 2, Objectives: []string{"a"}}}), morl.ErrCorrupt},
		"without weights": {crafted(morl.FileVersion, morl.Meta{Agent: "conditioned", Shape: s, Config: morl.Config{Hidden: []int{4}}}), nil},
	} {
		_, _, err := morl.ReadFile(bytes.NewReader(c.data))
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	for i := range good { // every flipped bit must be detected
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		if _, _, err := morl.ReadFile(bytes.NewReader(bad)); err == nil {
			t.Fatalf("bit %d of byte %d flipped: not found", i%8, i)
		}
	}
}

func FuzzReadAgentFile(f *testing.F) {
	f.Add(smallFile(f))
	f.Add(crafted(1, morl.Meta{}))
	f.Fuzz(func(t *testing.T, data []byte) { morl.ReadFile(bytes.NewReader(data)) })
}
