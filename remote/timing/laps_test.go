package timing

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLaps(t *testing.T) {
	l := BeginLaps()
	l.Lap("freeze")
	l.Lap("write")
	var out strings.Builder
	slog.New(slog.NewTextHandler(&out, nil)).Info("generation begins", l.Attrs()...)
	for _, part := range []string{" took=", " freeze=", " write="} {
		if strings.Count(out.String(), part) != 1 {
			t.Fatalf("%s does not have %q once", out.String(), part)
		}
	}
	took := l.Attrs()[1].(time.Duration)
	if sum := l.parts[1].(time.Duration) + l.parts[3].(time.Duration); (sum - took).Abs() > 2*time.Microsecond { // each is rounded
		t.Fatalf("the parts take %v, the whole %v", sum, took)
	}
	var none *Laps
	none.Lap("freeze")
	if got := none.Attrs(); got != nil {
		t.Fatalf("no laps have attributes %v", got)
	}
}
