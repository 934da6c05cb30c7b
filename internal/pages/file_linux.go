package pages

import (
	"errors"
	"os"
	"syscall"

	"github.com/edl-go/edl/fault"
)

func newFile(dir string, bytes int) (a *Area, err error) {
	if bytes == 0 {
		return &Area{}, nil
	}
	f, err := os.CreateTemp(dir, FilePrefix)
	if err != nil {
		return nil, fault.File(fault.InvalidArgument, dir, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }() // the mapping keeps the file
	if err := os.Remove(f.Name()); err != nil {
		return nil, fault.File(fault.Unavailable, dir, err)
	}
	if err := allocate(f, int64(bytes)); err != nil {
		return nil, fault.E(fault.Unavailable, fault.At(dir), fault.Gotf("no room for a file of %d bytes", bytes), fault.Want("that much free disk"), fault.Cause(err))
	}
	all, err := syscall.Mmap(int(f.Fd()), 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fault.E(fault.Unavailable, fault.At(dir), fault.Gotf("no address space for a file of %d bytes", bytes), fault.Cause(err))
	}
	_ = syscall.Madvise(all, syscall.MADV_RANDOM) // a wish
	return &Area{memory: all, all: all}, nil
}

// allocate gives a file its place on the disk. Not all file systems can; zeros do it there.
func allocate(f *os.File, bytes int64) error {
	err := syscall.Fallocate(int(f.Fd()), 0, 0, bytes)
	if !errors.Is(err, syscall.EOPNOTSUPP) && !errors.Is(err, syscall.ENOSYS) {
		return err
	}
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < bytes; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), bytes-at)], at); err != nil {
			return err
		}
	}
	return nil
}
