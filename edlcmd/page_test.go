package edlcmd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runPage runs the commands of a page of docs in its order. A command with "&" at its end is a listener, which ends after the page, and before the lines of a script that come then. A block "yaml NAME" is a file. A block "text" or "json" is what the last command before it prints. Before the page come
// lines of a script, which make what the page begins with, and files of the form "-- NAME --".
func runPage(t *testing.T, page, before, after, files string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	script.WriteString(before)
	commands := 0
	for i, block := range strings.Split(string(text), "\n```") {
		info, body, _ := strings.Cut(block, "\n")
		kind, name, _ := strings.Cut(info, " ")
		switch {
		case i%2 == 0:
		case kind == "sh":
			for command := range strings.Lines(body) {
				commands++
				if listener, ok := strings.CutSuffix(strings.TrimSpace(command), " &"); ok {
					fmt.Fprintf(&script, "! exec %s &listener&\nuntil '^JOB ' edl jobs\n", listener)
					after = "kill -INT listener\nwait listener\n" + after
				} else {
					fmt.Fprintf(&script, "exec %s\n", strings.TrimSpace(command))
				}
			}
		case kind == "text" || kind == "json":
			fmt.Fprintf(&script, "cmp stdout answer%d\n", i)
			files += fmt.Sprintf("-- answer%d --\n%s\n", i, body)
		case name != "":
			files += fmt.Sprintf("-- %s --\n%s\n", name, body)
		}
	}
	if commands == 0 {
		t.Fatalf("%s has no commands", page)
	}
	path := filepath.Join(t.TempDir(), "page.txtar")
	if err := os.WriteFile(path, []byte(script.String()+after+files), 0o666); err != nil {
		t.Fatal(err)
	}
	runScripts(t, "", path)
}

// houses is a table that the program "line" learns.
const houses = "-- houses.csv --\na,b,y\n1,0,3\n0,1,1\n1,1,4\n-1,0,-3\n1,-1,2\n0,-1,-1\n-1,1,-2\n-1,-1,-4\n1,0,3\n0,1,1\n1,1,4\n-1,0,-3\n"

func TestThePageOfSweeps(t *testing.T) {
	runPage(t, "sweep.md", "program line program.pb\n", "", houses)
}

func TestThePageOfSizing(t *testing.T) {
	if testing.Short() {
		t.Skip("the page starts a cluster, as other tests do; only its commands are of interest")
	}
	runPage(t, "sizing.md", "program line program.pb\n", "", houses)
}

func TestThePageOfTraces(t *testing.T) {
	if testing.Short() {
		t.Skip("the page starts a cluster; where spans come from is tested in remote/timing and remote/tracing")
	}
	before := "program line program.pb\nexec edl data csv houses.csv -o data --label-type float32\nenv EDL_ADDR=127.0.0.1:0\ncollector COLLECTOR\n"
	runPage(t, "tracing.md", before, "spans round 'trainer 0' 'trainer 1' 'pserver 0' coordinator compute apply 'hand out'\n", houses)
}

// The page begins with a model and with a program that Fluid itself has saved.
func TestThePageOfFluid(t *testing.T) {
	data := os.Getenv("EDL_TESTDATA")
	if data == "" {
		t.Skip("EDL_TESTDATA is not set: there are no files of Fluid")
	}
	if testing.Short() {
		t.Skip("the page starts a cluster, as other tests do; only its commands are of interest")
	}
	models := filepath.Join(data, "models")
	runPage(t, "fluid.md", fmt.Sprintf("exec cp -r %s/uci_housing housing\nexec cp %s/fit_a_line_sgd/main_program.reconstructed.bin main.pb\nexec cp %s/fit_a_line_sgd/startup_program.bin startup.pb\nexec cp %s/housing/housing.data .\n",
		models, models, models, data), "", "-- x.csv --\n0.0137,-0.1136,0.2553,-0.0692,0.0582,-0.0727,-0.1583,-0.0584,0.6283,0.4919,0.1856,0.0795,-0.0332\n")
}
