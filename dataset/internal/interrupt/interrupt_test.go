package interrupt

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
)

func TestCheck(t *testing.T) {
	if err := Check(context.Background(), "loop"); err != nil {
		t.Errorf("a living context: %v", err)
	}
	why := errors.New("the job was stopped")
	canceled, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	if err := Check(canceled, "loop"); !errors.Is(err, fault.Canceled) || !errors.Is(err, why) || err.Error() != "loop: the job was stopped" {
		t.Errorf("a canceled context: %v", err)
	}
	late, cancelLate := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancelLate()
	if err := Check(late, "loop"); !errors.Is(err, fault.DeadlineExceeded) {
		t.Errorf("a late context: %v", err)
	}
}
