// Package scripttest runs tests that are written as text: commands, and below each step the output that is expected of it. The state machines of remote
// are tested this way, because a scenario then reads as the story that it is.
//
// A script is a list of steps, separated by empty lines. A step is one command a line, a line of four dashes, and the joined output of the commands.
// Lines that start with '#' are comments and belong to the step below them:
//
//	# A queue that has two tasks gives one to each trainer.
//	new files=20
//	get rank=0
//	----
//	task 0, dispatch 1, pass 0, records 0-10
//
// Run a test with -rewrite to write what the commands now say. Commit only changes whose cause you understand.
package scripttest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the output of the commands into the scripts")

// separator stands between the commands of a step and their output.
const separator = "----"

// A Command is one line of a script: a name and its arguments, separated by spaces.
type Command struct {
	Name string
	Args []string
}

// Arg returns the value of the argument "key=value", or otherwise.
func (c Command) Arg(key, otherwise string) string {
	for _, a := range c.Args {
		if k, v, ok := strings.Cut(a, "="); ok && k == key {
			return v
		}
	}
	return otherwise
}

// RunDir runs every .txt file of a directory as a test of its own. It calls start for each file. The function that start returns carries out a command
// and returns its output, without a line feed at the end.
func RunDir(t *testing.T, dir string, start func(t *testing.T) func(Command) string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s: %v", dir, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runFile(t, file, start(t)) })
	}
}

func runFile(t *testing.T, file string, run func(Command) string) {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	have := strings.TrimSpace(string(b))
	var got []string
	for _, step := range strings.Split(have, "\n\n") {
		head, want := splitStep(step)
		output := runStep(head, run)
		if output != want && !*rewrite {
			t.Errorf("%s: after\n%s\ngot\n%s\nwant\n%s", file, head, output, want)
		}
		got = append(got, strings.TrimRight(head+"\n"+separator+"\n"+output, "\n"))
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(strings.Join(got, "\n\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// splitStep separates the comments and commands of a step from its output.
func splitStep(step string) (head, output string) {
	head, output, _ = strings.Cut(strings.Trim(step, "\n"), "\n"+separator)
	return head, strings.Trim(output, "\n")
}

func runStep(head string, run func(Command) string) string {
	var out []string
	for line := range strings.Lines(head) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if s := run(Command{Name: words[0], Args: words[1:]}); s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, "\n")
}
