package listen

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/wire"
)

// The audit log is a file of JSON lines in the data folder: who has asked for what, when, and with what outcome. Lines are only added. A file of auditBytes gets
// the next number, and the oldest is removed.
const (
	auditFile  = "audit.jsonl"
	auditBytes = 16 << 20
	auditFiles = 5 // audit.jsonl, and audit.jsonl.1, which is newer than audit.jsonl.2
	auditText  = 1 << 10
)

// An auditLine is one call or request that changes something, one that was refused, or the end of a job.
type auditLine struct {
	Time    time.Time `json:"time"`
	User    string    `json:"user,omitempty"` // the name in the certificate; absent for the end of a job
	Method  string    `json:"method"`         // of the Listener service, or "end", or of a request, with its route
	Job     string    `json:"job,omitempty"`
	Program string    `json:"program,omitempty"` // SHA-256
	Outcome string    `json:"outcome"`           // ok, the kind of the error, or the state of a job that has ended
	Error   string    `json:"error,omitempty"`
	LeftOut int       `json:"left_out,omitempty"` // calls of strangers before this one that have no line
}

// An audit writes the audit log. A nil audit writes none. It is safe for concurrent use.
type audit struct {
	mu   sync.Mutex
	path string
	most int64 // bytes of a file
	file *os.File
	size int64

	// The lines of strangers, who are unknown callers, are bounded: they could fill the files and push out the lines of others.
	lines   float64   // that may be written of them
	counted time.Time // when lines was counted
	leftOut int       // calls since the last line of a stranger
}

// Lines of strangers: strangerLines at once, and then one each strangerPause, which are 3 MB a day at most.
const (
	strangerLines = 250
	strangerPause = 10 * time.Second
)

// stranger takes one of the lines of strangers. It says how many were left out before, or that there is none now.
func (a *audit) stranger(now time.Time) (leftOut int, may bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines, a.counted = min(strangerLines, a.lines+now.Sub(a.counted).Seconds()/strangerPause.Seconds()), now
	if a.lines < 1 {
		a.leftOut++
		return 0, false
	}
	a.lines--
	leftOut, a.leftOut = a.leftOut, 0
	return leftOut, true
}

func openAudit(dir string) (*audit, error) {
	a := &audit{path: filepath.Join(dir, auditFile), most: auditBytes, lines: strangerLines, counted: time.Now()}
	return a, a.open()
}

func (a *audit) open() (err error) {
	if a.file, err = os.OpenFile(a.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return fault.File(fault.Unavailable, a.path, err)
	}
	info, err := a.file.Stat()
	if err != nil {
		return errors.Join(fault.File(fault.Unavailable, a.path, err), a.file.Close())
	}
	a.size = info.Size()
	return nil
}

// write adds a line.
func (a *audit) write(l auditLine) error {
	if a == nil {
		return nil
	}
	l.Time = time.Now().UTC()
	l.Error = l.Error[:min(len(l.Error), auditText)]
	b, err := json.Marshal(l) // escapes control characters
	if err != nil {
		return fault.Wrap(fault.Internal, a.path, err)
	}
	b = append(b, '\n')
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.size > 0 && a.size+int64(len(b)) > a.most {
		if err := a.rotate(); err != nil {
			return err
		}
	}
	n, err := a.file.Write(b)
	a.size += int64(n)
	return fault.Wrap(fault.Unavailable, a.path, err)
}

// rotate begins a new file. a.mu is held.
func (a *audit) rotate() error {
	err := a.file.Close()
	for i := auditFiles - 1; i > 0 && err == nil; i-- {
		from := a.path
		if i > 1 {
			from += "." + strconv.Itoa(i-1)
		}
		if err = os.Rename(from, a.path+"."+strconv.Itoa(i)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return errors.Join(err, a.open())
}

func (a *audit) close() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.file.Close()
}

// A deed is what a call does, as its handler finds out.
type deed struct{ job, program string }

type deedKey struct{}

// concerns notes which job the call of a context concerns.
func concerns(ctx context.Context, job, program string) {
	if d, ok := ctx.Value(deedKey{}).(*deed); ok {
		d.job, d.program = job, program
	}
}

// often are methods that a job calls in each of its steps: only what is refused is noted of them.
var often = map[string]bool{"Acknowledge": true, "RunStep": true}

// audited calls handle, and notes the call if it has changed something or was refused.
func audited(ctx context.Context, m *Manager, method string, handle func(context.Context) error) error {
	method = path.Base(method)
	d := &deed{}
	err := handle(context.WithValue(ctx, deedKey{}, d))
	denied := errors.Is(err, fault.Denied)
	if (methodAccess[method] == credential.Viewer || often[method]) && !denied {
		return err
	}
	l := auditLine{User: "local", Method: method, Job: d.job, Program: d.program, Outcome: "ok"}
	if name, asked := wire.Caller(ctx); asked {
		l.User = name.String()
	}
	if err != nil {
		l.Outcome, l.Error = fault.KindOf(err).String(), err.Error()
	}
	note(m, l)
	return err
}

// noteStranger writes a line about a call of somebody who is not known, unless there are too many of them.
func noteStranger(m *Manager, method string, refusal error) {
	if m.cfg.Data == nil {
		return
	}
	if leftOut, may := m.cfg.Data.audit.stranger(time.Now()); may {
		note(m, auditLine{User: "unknown", Method: method, Outcome: fault.KindOf(refusal).String(), Error: refusal.Error(), LeftOut: leftOut})
	}
}

// Note writes a line about what a server beside the one of calls, such as that of pages, was asked for. A name of no kind is that of somebody who is not known.
func Note(m *Manager, by credential.Name, what string, err error) {
	if by.Kind == "" && err != nil {
		noteStranger(m, what, err)
		return
	}
	l := auditLine{User: by.String(), Method: what, Outcome: "ok"}
	if err != nil {
		l.Outcome, l.Error = fault.KindOf(err).String(), err.Error()
	}
	note(m, l)
}

// note writes a line to the audit log. What cannot be written is said in the log of the listener.
func note(m *Manager, l auditLine) {
	if m.cfg.Data == nil {
		return
	}
	if err := m.cfg.Data.audit.write(l); err != nil {
		m.cfg.Log.Error("the audit log lacks a line", "method", l.Method, "job", l.Job, "user", l.User, "error", err)
	}
}
