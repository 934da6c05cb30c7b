package launch

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/proto/rpc"
)

// The log of a run is read as it was written, also after a listener that was killed within a line. It keeps what readers can ask for, and no more than twice as much.
func TestRunLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	log := slog.New(slog.DiscardHandler)
	last := func(l *RunLog) (text string) {
		_ = l.lines.Read(context.Background(), l.number-1, false, func(number uint64, m *rpc.LogLine) error {
			text = fmt.Sprintf("%d %s %s", number, m.Role, m.Line)
			return nil
		})
		return text
	}
	first := openLog(dir, log)
	first.Add("trainer-0/0", "one", 1)
	first.Add("trainer-0/1", "two", 7)
	first.close()
	f, err := os.OpenFile(filepath.Join(dir, "0"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.Write([]byte{200, 1, 2})
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	second := openLog(dir, log)
	if got := last(second); got != "1 trainer-0 two" || second.NextOf("trainer-0/1") != 7 || second.NextOf("trainer-0/0") != 1 || second.NextOf("trainer-0/2") != 0 {
		t.Errorf("the last line is %q, and the next ones are %v", got, second.next)
	}
	for i := range 3 * KeptLines {
		second.Add("pserver-0/0", "x", uint64(i+1))
	}
	second.close()
	third := openLog(dir, log)
	if got, want := last(third), fmt.Sprintf("%d pserver-0 x", 3*KeptLines+1); got != want || third.NextOf("pserver-0/0") != 3*KeptLines {
		t.Errorf("the last line is %q, want %q; the next ones are %v", got, want, third.next)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) > 2 {
		t.Errorf("%d files, %v", len(files), err)
	}
}
