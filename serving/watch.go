package serving

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/edl-go/edl/fault"
)

// watch reads the files again whenever they have changed, and have stayed for one look, or when the source has another state.
func (m *Model) watch(ctx context.Context) {
	ticker := time.NewTicker(m.settings.interval)
	defer ticker.Stop()
	var failed files
	last := seenFiles(m)
	behind := false // the source may have a state that the model has not tried
	looks, reads := lasting{after: 1}, lasting{after: 3}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, err := m.look()
		if err != nil {
			continue // a directory that is being replaced is away for a moment
		}
		if m.settings.source != nil {
			changed, err := m.settings.source.Changed(ctx)
			switch begins, ends := looks.saw(err); {
			case begins:
				m.settings.log.WarnContext(ctx, "the source of parameters cannot be looked at; the model stays as it is", "path", m.path, "error", err)
			case ends:
				m.settings.log.InfoContext(ctx, "the source of parameters can be looked at again", "path", m.path)
			}
			behind = behind || changed
		}
		stayed := now.equal(last)
		last = now
		other := stayed && !now.equal(seenFiles(m)) && !now.equal(failed)
		if !other && behind && stayed {
			behind, other = m.newState(ctx)
		}
		if !other {
			continue
		}
		err = m.Reload(ctx)
		if fault.KindOf(err) == fault.Unavailable { // the next look tries again
			if begins, _ := reads.saw(err); begins {
				m.settings.log.WarnContext(ctx, "the model cannot be read again for now; it stays as it is", "path", m.path, "error", err)
				if m.settings.reloaded != nil {
					m.settings.reloaded(err)
				}
			}
			continue
		}
		reads.saw(nil)
		if behind, failed = false, nil; err != nil {
			failed = now // no other try with the same files
		}
	}
}

// A lasting error is told once when it has come so many times in a row, and once when it is over.
type lasting struct{ after, times int }

// saw takes the result of another try.
func (l *lasting) saw(err error) (begins, ends bool) {
	if err == nil {
		ends, l.times = l.times >= l.after, 0
		return false, ends
	}
	l.times++
	return l.times == l.after, false
}

// newState reports whether the source has another state than the model, or may have one that cannot be found now.
func (m *Model) newState(ctx context.Context) (maybe, has bool) {
	state, err := m.settings.source.Newest(ctx)
	switch fault.KindOf(err) {
	case fault.Unavailable:
		return true, false
	case fault.NotFound:
		return false, false
	}
	if err != nil {
		return true, true // Reload tells what is wrong
	}
	own := m.current.Load().params.state
	has = own == nil || own.Name() != state.Name()
	return has, has
}

// seenFiles are the files of a model that were read last.
func seenFiles(m *Model) files {
	m.reading.Lock()
	defer m.reading.Unlock()
	return m.seen
}

// Reload reads the files of the model again, for requests that begin from now on. If it fails, the model stays as it is.
func (m *Model) Reload(ctx context.Context) error {
	err := m.read(ctx)
	if fault.KindOf(err) == fault.Unavailable {
		return err // the files are being replaced now
	}
	if err != nil {
		m.settings.log.WarnContext(ctx, "the model was not read again", "path", m.path, "error", err)
	} else {
		attrs := []any{"path", m.path, "version", m.current.Load().number}
		if state := m.Following(); state != "" {
			attrs = append(attrs, "state", state)
		}
		m.settings.log.InfoContext(ctx, "the model was read again", attrs...)
	}
	if m.settings.reloaded != nil {
		m.settings.reloaded(err)
	}
	return err
}

// files are the files of a model at one time, by path.
type files map[string]fs.FileInfo

// equal reports whether no file is another one, and none was written to.
func (f files) equal(g files) bool {
	return maps.EqualFunc(f, g, func(a, b fs.FileInfo) bool {
		return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
	})
}

// look finds the files of the model.
func (m *Model) look() (files, error) {
	program, err := programOf(m.path)
	if err != nil {
		return nil, err
	}
	found := files{}
	for _, path := range []string{program, m.paramsOf(program)} {
		if path == "" {
			continue
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return nil, fault.File(fault.InvalidArgument, m.path, err)
		}
		err := filepath.WalkDir(path, func(at string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := os.Stat(at)
			if err == nil && info.Mode().IsRegular() {
				found[at] = info
			}
			return err
		})
		if err != nil {
			return nil, fault.File(fault.InvalidArgument, m.path, err)
		}
	}
	return found, nil
}
