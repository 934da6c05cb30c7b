package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/program"
)

// The README shows what is built here.
func TestTheREADMEShowsThisProgram(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(readme), "```go\n")
	block, _, ok := strings.Cut(block, "```")
	if !ok {
		t.Fatal("the README has no Go")
	}
	var lines []string
	for line := range strings.Lines(block) {
		if line = strings.TrimSuffix(line, "\n"); line != "" {
			line = "\t" + line
		}
		lines = append(lines, line)
	}
	if !strings.Contains(string(source), strings.Join(lines, "\n")) {
		t.Errorf("main.go does not have these lines of the README:\n%s", block)
	}
}

// The commands that the README gives make a module of this program in which every import is found, and has its sum.
func TestTheREADMEMakesAModule(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(readme), "\n    go mod init ")
	text, _, ok := strings.Cut(text, "\n")
	if !ok {
		t.Fatal("the README has no go mod init")
	}
	clone, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "mine")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(clone, filepath.Join(filepath.Dir(dir), "edl")); err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), source, 0o600); err != nil {
		t.Fatal(err)
	}
	for command := range strings.SplitSeq("go mod init "+text+" && go list -deps -test .", " && ") {
		words := strings.Fields(command)
		run := exec.CommandContext(t.Context(), words[0], words[1:]...)
		run.Dir = dir
		run.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
		if out, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
}

func TestTrains(t *testing.T) {
	t.Chdir(t.TempDir())
	var table strings.Builder
	for i := range 100 {
		for k := range 13 {
			fmt.Fprintf(&table, "%d.5 ", (i*(k+3))%17)
		}
		fmt.Fprintf(&table, "%d.0\n", 10+i%17)
	}
	if err := os.WriteFile("housing.data", []byte(table.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := convertTable(t.Context(), "housing.data"); err != nil {
		t.Fatal(err)
	}
	if err := train(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := program.Load("program.pb", program.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	exe := executor.New()
	defer exe.Close()
	if _, err := exe.Load(t.Context(), "model", p, executor.LoadOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := exe.Progress(); got.Steps != 80 || got.Pass != 20 {
		t.Errorf("progress %+v, want 80 steps in 20 passes", got)
	}
}
