package edlcmd

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/jobspec"
)

// A listener that does not find records of tables has not made them, so its error says where they are. Records that the user names say nothing of tables.
func TestErrorSaysWhereRecordsOfTablesAre(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "train-*")
	spec := &job.JobSpec{Data: []*job.DataBinding{{Dataset: "train", Globs: []string{nowhere}}}}
	missing := jobspec.CheckFiles(t.Context(), spec)
	if missing == nil {
		t.Fatal("files that are not there are found")
	}
	const hint = "the machine of the listener must have them under the same path"
	for used, want := range map[bool]bool{true: true, false: false} {
		text := (&tableData{schema: "s.yaml", used: used}).unseen(missing).Error()
		if strings.Contains(text, hint) != want || !strings.Contains(text, nowhere) {
			t.Errorf("records of tables: %t, error %q", used, text)
		}
	}
}
