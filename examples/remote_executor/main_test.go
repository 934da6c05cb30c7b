package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/examples/internal/exampletest"
	"github.com/edl-go/edl/executor"
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

func TestLaw(t *testing.T) {
	p, loss, err := model()
	if err != nil {
		t.Fatal(err)
	}
	exampletest.ObeysOn(t, p, func(exe executor.Executor) map[string][]byte {
		recorder := exampletest.Steps(exe)
		if err := train(t.Context(), recorder, p, loss, io.Discard); err != nil {
			t.Fatal(err)
		}
		return recorder.Fetched
	})
}
