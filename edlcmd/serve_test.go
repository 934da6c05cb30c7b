package edlcmd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The commands of docs/serving.md print what the page says, at a free address in place of its own.
func TestThePageOfServing(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("the page has commands of curl, which is not here")
	}
	page, err := os.ReadFile(filepath.Join("..", "docs", "serving.md"))
	if err != nil {
		t.Fatal(err)
	}
	free, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	var script, answers strings.Builder
	script.WriteString("program line program.pb\nexec edl data csv table.csv -o data --label-type float32\n" +
		"exec edl run program.pb --data 'train=data/train-*' --export served --export-fetch prediction\n")
	commands := 0
	for i, block := range strings.Split(strings.ReplaceAll(string(page), defaultServing, free), "```") {
		kind, text, _ := strings.Cut(block, "\n")
		switch {
		case i%2 == 0:
		case kind == "json":
			fmt.Fprintf(&script, "cmp stdout answer%d\n", i)
			fmt.Fprintf(&answers, "-- answer%d --\n%s", i, text)
		case kind == "sh" && strings.HasPrefix(text, "edl serve "):
			fmt.Fprintf(&script, "! exec %s &server&\nask 200 ready http://%s/v2/health/ready\n", strings.TrimSpace(text), free)
			commands++
		case kind == "sh":
			fmt.Fprintf(&script, "exec %s\n", strings.TrimSpace(text))
			commands++
		}
	}
	if commands != 3 {
		t.Errorf("the page has %d commands, want 3", commands)
	}
	script.WriteString("kill -INT server\nwait server\n-- table.csv --\na,b,y\n1,0,3\n0,1,1\n1,1,4\n-1,0,-3\n")
	path := filepath.Join(t.TempDir(), "page.txtar")
	if err := os.WriteFile(path, []byte(script.String()+answers.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	runScripts(t, "", path)
}

// The commands of docs/tutorial.md lead from a table to an answer, as the page says.
func TestThePageOfTheTutorial(t *testing.T) {
	root := os.Getenv("EDL_TESTDATA")
	if root == "" {
		t.Skip("EDL_TESTDATA is not set: the census of the page is not here")
	}
	runTablePage(t, "tutorial.md", map[string]string{"adult.csv": filepath.Join(root, "adult", "adult.data")}, "person.json", map[string]string{
		"--metric auc --metric accuracy": `metric  auc 0\.91[012]`, "--stop-when": `best  pass .* auc 0\.91[123]`, "--params data/remote": `metric  auc 0\.91[012]`,
		"curl": `"shape":\[1,2\],"data":\[0\.0[0-9]+,0\.9[0-9]+\]`})
}

// The commands of docs/clicks.md lead from a log without names of columns to an answer, as the page says.
func TestThePageOfClicks(t *testing.T) {
	root := os.Getenv("EDL_TESTDATA")
	if root == "" {
		t.Skip("EDL_TESTDATA is not set: the clicks of the page are not here")
	}
	if testing.Short() {
		t.Skip("the page starts clusters, as that of the tutorial does; the rest is tested in dataset/schema and examples/table")
	}
	runTablePage(t, "clicks.md", map[string]string{"clicks.tsv": filepath.Join(root, "criteo", "xdeepfm_train_tr"), "later.tsv": filepath.Join(root, "criteo", "xdeepfm_test_ev")}, "click.json",
		map[string]string{"--stop-when": `best  pass 2 .* auc 0\.74`, "--params data/remote": `metric  auc 0\.7[34]`, "curl": `"shape":\[1,2\],"data":\[0\.6[0-9]+,0\.3[0-9]+\]`})
}

// runTablePage runs the commands of a page that goes from tables to a server, at a free address in place of its own. The tables are copied from where copies says; the
// block of JSON is the file question, which the page asks the server. wanted has what commands print, by a part of the command.
func runTablePage(t *testing.T, name string, copies map[string]string, question string, wanted map[string]string) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("the page has commands of curl, which is not here")
	}
	page, err := os.ReadFile(filepath.Join("..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	free, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	example := filepath.Join(folder, "table")
	build := exec.Command("go", "build", "-o", example, "./examples/table")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var script, files strings.Builder
	for to, from := range copies {
		fmt.Fprintf(&script, "cp %s %s\n", from, to)
	}
	for i, block := range strings.Split(strings.ReplaceAll(string(page), defaultServing, free), "```") {
		kind, text, _ := strings.Cut(block, "\n")
		if kind == "json" && i%2 == 1 {
			fmt.Fprintf(&files, "-- %s --\n%s", question, text)
		}
		if kind != "sh" || i%2 == 0 {
			continue
		}
		for command := range strings.Lines(text) {
			command = strings.Replace(strings.TrimSpace(command), "go run ./examples/table", example, 1)
			if strings.HasPrefix(command, "edl serve ") {
				fmt.Fprintf(&script, "! exec %s &server&\nask 200 ready http://%s/v2/health/ready\n", command, free)
				continue
			}
			fmt.Fprintf(&script, "exec %s\n", command)
			for part, answer := range wanted {
				if strings.Contains(command, part) {
					fmt.Fprintf(&script, "stdout '%s'\n", answer)
					delete(wanted, part)
				}
			}
		}
	}
	if len(wanted) > 0 {
		t.Errorf("the page has no commands with %v", wanted)
	}
	script.WriteString("kill -INT server\nwait server\n")
	path := filepath.Join(folder, "page.txtar")
	if err := os.WriteFile(path, []byte(script.String()+files.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	runScripts(t, "", path)
}
