package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"go.uber.org/zap/zapcore"

	"github.com/edl-go/edl/fault"
)

// where names an embedded server in errors.
func where(dir string) string { return "embedded etcd in " + dir }

// A breakage is why an embedded server cannot go on. Where etcd would end the process, or panics in a goroutine of its own, it only ends that goroutine:
// this process may be a program of a user.
type breakage struct {
	dir  string
	log  *slog.Logger       // may be nil
	stop context.CancelFunc // ends the streams of clients
	done chan struct{}      // closed when the server is broken
	once sync.Once
	err  error // valid when done is closed

	running atomic.Bool // Embed has returned the server, so that only the log can say why it breaks
}

// OnWrite implements zapcore.CheckWriteHook. It does not return.
func (b *breakage) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := errors.New(entry.Message)
	for _, f := range fields {
		if cause, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			err = fmt.Errorf("%s: %w", entry.Message, cause)
		}
	}
	b.enter(err)
	runtime.Goexit()
}

// enter keeps the first error.
func (b *breakage) enter(err error) {
	b.once.Do(func() {
		b.err = fault.E(fault.Unavailable, fault.At(where(b.dir)), fault.Cause(err), fault.Hint(remedy(err)))
		if b.log != nil && b.running.Load() {
			b.log.Error("the embedded etcd cannot go on", "reason", b.err.Error())
		}
		b.stop()
		close(b.done)
	})
}

// remedy says what to do about an error of the operating system; empty: nothing is known.
func remedy(err error) string {
	for errno, hint := range map[error]string{
		syscall.ENOSPC: "make room there, or let TMPDIR name another directory",
		syscall.EDQUOT: "make room there, or let TMPDIR name another directory",
		syscall.EROFS:  "let TMPDIR name another directory",
		syscall.EFBIG:  "raise the limit of the size of files, with ulimit -f",
		syscall.ENOMEM: "raise the limit of memory, with ulimit -v: etcd maps a file of up to 10 GB",
		syscall.EMFILE: "raise the limit of open files, with ulimit -n",
	} {
		if errors.Is(err, errno) {
			return hint
		}
	}
	return ""
}

// minFiles is how many files a process with an embedded server must be able to open. etcd keeps 150 for itself; the others are connections of roles.
const minFiles = 200

// enoughFiles refuses a limit with which etcd ends the process or serves too few connections. Go has raised the limit as far as it may.
func enoughFiles() error {
	if n, ok := fileLimit(); ok && n < minFiles {
		return fault.E(fault.Unavailable, fault.At("embedded etcd"), fault.Gotf("a limit of %d open files", n), fault.Wantf("at least %d", minFiles),
			fault.Hint(fmt.Sprintf("raise it, with ulimit -n %d", max(1024, minFiles))))
	}
	return nil
}
