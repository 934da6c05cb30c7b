package program

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/edl-go/edl/fault"
)

// Load reads a program file, binary or text; see Decode and DecodeProtoText. Its faults name the path.
func Load(path string, limits Limits) (*Program, error) {
	data, err := readFile(path, limits.withDefaults().Bytes)
	if err != nil {
		return nil, err
	}
	decode := Decode
	if IsText(data) {
		decode = DecodeProtoText
	}
	p, err := decode(data, limits)
	if err != nil {
		return nil, inFile(path, err)
	}
	return p, nil
}

// readFile reads a file of at most limit bytes.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fault.File(fault.InvalidArgument, path, err)
	}
	defer f.Close()
	// Refuse a file by its size before reading it. The size of a pipe is unknown.
	if info, err := f.Stat(); err == nil && info.Size() > limit {
		return nil, tooLong(path, limit)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fault.File(fault.InvalidArgument, path, err)
	}
	if int64(len(data)) > limit {
		return nil, tooLong(path, limit)
	}
	return data, nil
}

func tooLong(path string, limit int64) error {
	return fault.E(fault.TooLarge, fault.At(path), fault.Got("a longer file"), fault.Wantf("at most %d bytes", limit))
}

// inFile puts the path before the place of each fault.
func inFile(path string, err error) error {
	var list fault.List
	if errors.As(err, &list) {
		named := make(fault.List, len(list))
		for i, f := range list {
			named[i] = f.In(path, ": ")
		}
		return named
	}
	var f *fault.Fault
	if errors.As(err, &f) {
		return f.In(path, ": ")
	}
	return err
}

// Save writes the program to a file. After a crash the file is there whole or not at all.
func (p *Program) Save(path string) error {
	data, err := p.Encode()
	if err != nil {
		return err
	}
	return fault.File(fault.InvalidArgument, path, writeFile(path, data))
}

func writeFile(path string, data []byte) (err error) {
	folder := filepath.Dir(path)
	temp, err := os.CreateTemp(folder, "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			temp.Close()
			os.Remove(temp.Name())
		}
	}()
	if _, err = temp.Write(data); err != nil {
		return err
	}
	if err = temp.Chmod(0o644); err != nil {
		return err
	}
	if err = temp.Sync(); err != nil {
		return err
	}
	if err = temp.Close(); err != nil {
		return err
	}
	if err = os.Rename(temp.Name(), path); err != nil {
		return err
	}
	return syncFolder(folder)
}

// syncFolder makes a rename durable.
func syncFolder(folder string) error {
	dir, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
