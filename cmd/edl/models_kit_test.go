package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testdata returns a path below the folder of real datasets and models, or skips the test.
func testdata(t *testing.T, elements ...string) string {
	t.Helper()
	root := os.Getenv("EDL_TESTDATA")
	if root == "" {
		t.Skip("EDL_TESTDATA is not set: no models that were saved by Fluid")
	}
	return filepath.Join(append([]string{root}, elements...)...)
}

// fetchedBy runs edl with --output json and returns the one variable that it fetches.
func fetchedBy(t *testing.T, args ...string) []float64 {
	t.Helper()
	var out, diagnostics bytes.Buffer
	if code := run(t.Context(), append(args, "--output", "json"), strings.NewReader(""), &out, &diagnostics); code != 0 {
		t.Fatalf("edl %s ended with %d: %s", strings.Join(args, " "), code, diagnostics.String())
	}
	var event struct {
		Event string
		Data  []float64
	}
	if err := json.Unmarshal(out.Bytes(), &event); err != nil || event.Event != "fetch" {
		t.Fatalf("edl printed %s: %v", out.String(), err)
	}
	return event.Data
}

func near(t *testing.T, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if math.Abs(got[i]-want[i]) > tolerance {
			t.Errorf("element %d is %.9f, want %.9f", i, got[i], want[i])
		}
	}
}

func writeFeed(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeArray writes a .npy file of an element type as NumPy does.
func writeArray(t *testing.T, path, element string, dims []int64, data any) {
	t.Helper()
	shape := strings.ReplaceAll(strings.Trim(fmt.Sprint(dims), "[]"), " ", ", ")
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", element, shape)
	header += strings.Repeat(" ", 117-len(header)) + "\n"
	file := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), 0)
	file, err := binary.Append(append(file, header...), binary.LittleEndian, data)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, file, 0o666); err != nil {
		t.Fatal(err)
	}
}
