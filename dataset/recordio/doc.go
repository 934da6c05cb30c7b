// Package recordio reads and writes RecordIO files, the form of EDL's training data.
//
// A record is any sequence of bytes, even an empty one. A file is a sequence of chunks and a footer that lists them. A chunk is compressed and
// checked as a unit. A chunk has a header of six little-endian uint32 and a payload:
//
//	magic       "EDLR"
//	checksum    CRC-32 (IEEE) of the whole chunk but these four bytes
//	compressor  0 none, 1 snappy framing format, 2 gzip
//	stored      bytes of the payload as stored
//	records     number of records
//	raw         bytes of the payload when decompressed
//	payload     when decompressed: per record its length as uint32, and its bytes
//
// The footer is:
//
//	magic       "EDLF"
//	version     uint32: 2
//	entries     per chunk its offset in the file as uint64, and its header without the magic
//	records     uint64: of all chunks
//	chunks      uint32: number of entries
//	checksum    CRC-32 (IEEE) of the footer up to here
//	end         "EDLINDEX"
//
// This layout is called Indexed. There are two older layouts, with the magic number 0x01020304 and without footer. Plain is the layout of the Go
// library of PaddlePaddle, with headers of five uint32: magic, checksum (of the payload alone), compressor, stored, records. Fluid is the layout of
// its C++ writer, with the number of records before the checksum. A reader tells them apart by the order that makes a valid header.
//
// LoadIndex finds the chunks of a file without reading payloads. With the index, Reader reads any records and RangeReader any run of records. Scan reads
// whole files in order.
//
// Files are not trusted. Cut files, flipped bits and false sizes end in an error of kind Corrupt or TooLarge that names file and byte. A reader
// returns a record only if its whole chunk is sound. It allocates nothing for sizes that a file only claims. A file with a footer is read as it was
// written, or refused. A file of an old layout that is cut exactly between two chunks is a valid, shorter file. An empty file has no records.
//
// Files: format.go (layouts, headers, footer, limits), chunk.go, file.go (files, indexes, ranges), writer.go.
package recordio
