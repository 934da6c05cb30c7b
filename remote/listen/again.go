package listen

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/wire"
)

const (
	firstPause = 5 * time.Millisecond   // between calls that fail because a server is gone; it doubles
	retryPause = 100 * time.Millisecond // up to this, because a job may be over in as long
	sayAgain   = 10 * time.Second       // between log lines about calls that fail for the same reason
)

// again repeats a call, which asks a server for what, until it succeeds or ctx ends. Why it fails is logged, though not every time when it is the
// same reason; io.EOF is none.
func (j *Job) again(ctx context.Context, what string, call func() error) {
	var last string
	var said time.Time
	for pause := firstPause; ; pause = min(2*pause, retryPause) {
		err := call()
		if err == nil || ctx.Err() != nil {
			return
		}
		if err = wire.FromStatus("", err); !errors.Is(err, io.EOF) && (err.Error() != last || time.Since(said) > sayAgain) {
			last, said = err.Error(), time.Now()
			level := slog.LevelWarn
			if errors.Is(err, fault.Unavailable) {
				level = slog.LevelInfo // a server that is gone, and started again
			}
			j.manager.cfg.Log.Log(ctx, level, "asked again for "+what, "job", j.ID, "error", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// hear calls told with what a channel of the registry tells until ctx ends. One that is closed before, because the store refuses, is opened again.
func hear[T any](ctx context.Context, j *Job, what string, open func(context.Context) (<-chan T, error), told func(T)) {
	j.again(ctx, what, func() error {
		channel, err := open(ctx)
		if err != nil {
			return err
		}
		for v := range channel {
			told(v)
		}
		return fault.E(fault.InvalidArgument, fault.At("cluster"), fault.Got("no more word of it"),
			fault.Hint("look at the rights of the user in etcd"))
	})
}

// enter changes what mu guards.
func (j *Job) enter(do func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	do()
}
