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

// watch reads the files again whenever they have changed, and have stayed for one look.
func (m *Model) watch(ctx context.Context) {
	ticker := time.NewTicker(m.settings.interval)
	defer ticker.Stop()
	var failed files
	last := m.state()
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
		if now.equal(last) && !now.equal(m.state()) && !now.equal(failed) {
			err := m.Reload(ctx)
			if failed = nil; err != nil && fault.KindOf(err) != fault.Unavailable {
				failed = now // no other try with the same files
			}
		}
		last = now
	}
}

// state is that of the files that were read last.
func (m *Model) state() files {
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
		m.settings.log.InfoContext(ctx, "the model was read again", "path", m.path, "version", m.current.Load().number)
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
