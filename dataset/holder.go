package dataset

// A holder keeps copies of records in memory that it reuses.
type holder struct {
	bytes   []byte
	records []heldRecord
}

type heldRecord struct {
	number int64
	file   string
	end    int // of its bytes in holder.bytes; they begin where those of the record before end
}

func (h *holder) reset() { h.bytes, h.records = h.bytes[:0], h.records[:0] }

func (h *holder) add(r Record) {
	h.bytes = append(h.bytes, r.Bytes...)
	h.records = append(h.records, heldRecord{number: r.Number, file: r.File, end: len(h.bytes)})
}

func (h *holder) get(i int) Record {
	begin := 0
	if i > 0 {
		begin = h.records[i-1].end
	}
	r := h.records[i]
	return Record{Number: r.number, File: r.file, Bytes: h.bytes[begin:r.end]}
}
