package tensorboard

import (
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The bytes of a file follow from its events: a version, and values of steps.
func TestBytes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	w, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	w.now = func() time.Time { return time.Unix(1, 500_000_000) }
	if err := w.Write(300, Scalar{"loss", 0.5}, Scalar{"eval/auc", math.Inf(1)}); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(301); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	b, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	const first = 12 + 24 + 4 // every event file of TensorFlow begins with the same 12 bytes
	if got := hex.EncodeToString(b[:12]); got != "1800000000000000a37f4b22" {
		t.Errorf("the file begins with %s", got)
	}
	if !strings.HasSuffix(string(b[:first-4]), "\x1a\x0d"+version) {
		t.Errorf("the first record is %x", b[:first])
	}
	// 09 wall time 1.5, 10 step 300, 2a a summary, 0a each of its values: 0a tag, 15 number. The checksums were computed bit by bit.
	want := "2c00000000000000" + "f4aecc45" + "09000000000000f83f" + "10ac02" + "2a1e" + "0a0b" + "0a046c6f7373" + "150000003f" + "0a0f" +
		"0a086576616c2f617563" + "150000807f"
	if got := hex.EncodeToString(b[first : len(b)-4]); got != want {
		t.Errorf("the event is %s, want %s", got, want)
	}
	if got := hex.EncodeToString(b[len(b)-4:]); got != "1bf775fa" {
		t.Errorf("its checksum is %s, want %s", got, "1bf775fa")
	}
}

// A folder in which nothing can be made is an error.
func TestNoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(file); err == nil {
		t.Error("a file serves as folder")
	}
}
