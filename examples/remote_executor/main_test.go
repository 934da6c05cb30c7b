package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClusterLearnsTheSameLine(t *testing.T) {
	out := t.TempDir()
	var printed bytes.Buffer
	if err := run(t.Context(), "", out, &printed); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(printed.String(), "y = 3.000 x + 1.000"); n < 2 {
		t.Errorf("the line was found %d times:\n%s", n, printed.String())
	}
	if _, err := os.Stat(filepath.Join(out, "program.pb")); err != nil {
		t.Error(err)
	}
}
