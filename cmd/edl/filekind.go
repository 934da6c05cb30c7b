package main

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"

	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/fault"
)

// A fileKind is what a file holds.
type fileKind int

const (
	programFile fileKind = iota
	tensorFile
	recordFile
	jobFile
	queueFile
)

// String names what is in the file.
func (k fileKind) String() string {
	return [...]string{programFile: "a program", tensorFile: "parameters", recordFile: "records", jobFile: "a job file",
		queueFile: "a snapshot of task queues"}[k]
}

// kindOf tells the kind of a file from its name or its first bytes. A program is what is nothing else, so that its decoder says what is
// wrong.
func kindOf(path string) (fileKind, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return programFile, nil
	}
	f, size, err := openRegular(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if size == 0 {
		return 0, fault.E(fault.Corrupt, fault.At(path), fault.Got("an empty file"), fault.Want("a program, parameters, records or a job file"))
	}
	if ext := filepath.Ext(path); ext == ".yaml" || ext == ".yml" {
		return jobFile, nil
	}
	var head [4]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return programFile, nil
	}
	switch {
	case recordio.IsRecordFile(head[:]):
		return recordFile, nil
	case binary.LittleEndian.Uint32(head[:]) == queueMagic:
		return queueFile, nil
	case binary.LittleEndian.Uint32(head[:]) == 0: // version of a tensor stream; no program begins with it
		return tensorFile, nil
	}
	return programFile, nil
}
