package transpiler_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
)

func TestWriteDump(t *testing.T) {
	dir := t.TempDir()
	p := fitLine(t, 3, 2, optimizer.SGD(0.1))
	cfg := twoServers
	cfg.Dump = true
	r := transpile(t, p, cfg)
	if err := r.WriteDump(dir); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i], _ = filepath.Rel(dir, files[i])
	}
	want := strings.Fields(`
		00_verify_input/input.pb 00_verify_input/input.txt 09_trainer/trainer.pb 09_trainer/trainer.txt
		10_trainer_startup/trainer.pb 10_trainer_startup/trainer.txt
		11_pservers/pserver_0.pb 11_pservers/pserver_0.txt 11_pservers/pserver_1.pb 11_pservers/pserver_1.txt
		12_pserver_startup/pserver_0.pb 12_pserver_startup/pserver_0.txt 12_pserver_startup/pserver_1.pb 12_pserver_startup/pserver_1.txt
		13_save/save.pb 13_save/save.txt`)
	if !slices.Equal(files, want) {
		t.Errorf("files\n%v\nwant\n%v", files, want)
	}
	read, err := program.Load(filepath.Join(dir, "10_trainer_startup", "trainer.pb"), program.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := read.Hash()
	if final, _ := r.Trainer.Hash(); got != final {
		t.Error("the last dump of the trainer's program is not the result")
	}
	if text, err := os.ReadFile(filepath.Join(dir, "13_save", "save.txt")); err != nil || !strings.Contains(string(text), "save(X=fc_0.w_0)") {
		t.Errorf("text of the save program: %v\n%s", err, text)
	}
}
