package ops_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/all"
	"github.com/edl-go/edl/program"
)

// foreignOps are the ops of the models that EDL may lack: data_norm normalizes by sums that an external server of 2019 kept.
var foreignOps = map[string]bool{"data_norm": true, "data_norm_grad": true}

func TestRealFluidModelsVerify(t *testing.T) {
	data := os.Getenv("EDL_TESTDATA")
	if data == "" {
		t.Skip("EDL_TESTDATA is unset: it names the folder of real Fluid models")
	}
	stages := map[string]program.Stage{
		"__model__": program.StageInference, "main_program": program.StageLocal, "startup_program": program.StageStartup,
		"main_program.reconstructed.bin": program.StageLocal, "startup_program.bin": program.StageStartup,
	}
	verified := 0
	err := filepath.WalkDir(filepath.Join(data, "models"), func(path string, entry fs.DirEntry, err error) error {
		stage, isProgram := stages[entry.Name()]
		if err != nil || !isProgram {
			return err
		}
		verified++
		t.Run(strings.TrimPrefix(path, data), func(t *testing.T) {
			p, err := program.Load(path, program.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			var faults fault.List
			errors.As(ops.Verify(p, stage), &faults)
			for _, f := range faults {
				if f.Kind != fault.Unsupported || !foreignOps[f.Op] {
					t.Error(f)
				}
			}
		})
		return nil
	})
	if err != nil || verified < 10 {
		t.Errorf("%d models verified, %v", verified, err)
	}
}
