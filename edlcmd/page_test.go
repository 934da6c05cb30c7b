package edlcmd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runPage runs the commands of a page of docs in its order. A block "yaml NAME" is a file. A block "text" or "json" is what the last command before it prints. Before the page come
// lines of a script, which make what the page begins with, and files of the form "-- NAME --".
func runPage(t *testing.T, page, before, files string) {
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
				fmt.Fprintf(&script, "exec %s\n", strings.TrimSpace(command))
				commands++
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
	if err := os.WriteFile(path, []byte(script.String()+files), 0o666); err != nil {
		t.Fatal(err)
	}
	runScripts(t, "", path)
}

// houses is a table that the program "line" learns.
const houses = "-- houses.csv --\na,b,y\n1,0,3\n0,1,1\n1,1,4\n-1,0,-3\n1,-1,2\n0,-1,-1\n-1,1,-2\n-1,-1,-4\n1,0,3\n0,1,1\n1,1,4\n-1,0,-3\n"

func TestThePageOfSweeps(t *testing.T) { runPage(t, "sweep.md", "program line program.pb\n", houses) }

func TestThePageOfSizing(t *testing.T) {
	if testing.Short() {
		t.Skip("the page starts a cluster, as other tests do; only its commands are of interest")
	}
	runPage(t, "sizing.md", "program line program.pb\n", houses)
}
