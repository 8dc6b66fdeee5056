package native

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"coldtap/segment"
)

// slot is one small file in both of its forms.
type slot struct {
	name   string // as Files.IndexDamaged names it
	packed **PackedFile
	bytes  *[]byte
}

// slots lists the small files in the order in which they are packed.
func slots(p *PackedFiles, f *segment.Files) [5]slot {
	return [...]slot{
		{"index", &p.OffsetIndex, &f.OffsetIndex},
		{"timeindex", &p.TimeIndex, &f.TimeIndex},
		{"txnindex", &p.TxnIndex, &f.TxnIndex},
		{"snapshot", &p.Snapshot, &f.Snapshot},
		{"leader-epoch-checkpoint", &p.LeaderEpochs, &f.LeaderEpochs},
	}
}

// EncodeMeta makes a .meta object of m, with the parts of it that come from f, and f. It changes neither, and refuses
// what DecodeMeta would refuse.
func EncodeMeta(m *Manifest, f *segment.Files) ([]byte, error) {
	if f.TxnDamaged {
		return nil, errors.New("damaged transaction information cannot be stored")
	}
	full := *m
	full.Files, full.Aborted, full.Decided, full.Dense = PackedFiles{}, f.Aborted, f.Decided, f.Dense
	if err := full.check(); err != nil {
		return nil, err
	}
	if err := full.Aborted.check(); err != nil {
		return nil, err
	}
	var size int64
	for _, s := range slots(&full.Files, f) {
		if *s.bytes != nil {
			*s.packed = &PackedFile{Offset: size, FileSum: sumOf(*s.bytes)}
			size += int64(len(*s.bytes))
		}
	}
	manifest, err := json.Marshal(&full)
	if err != nil {
		return nil, err
	}
	if size += int64(frameHeader + len(manifest)); size > MaxMeta {
		return nil, fmt.Errorf("manifest and small files are %d bytes, at most %d are allowed", size, MaxMeta)
	}
	raw := appendFrame(make([]byte, 0, size), metaMagic, manifest)
	for _, s := range slots(&full.Files, f) {
		raw = append(raw, *s.bytes...)
	}
	return raw, nil
}

// DecodeMeta reads and checks a .meta object. A small file that is cut off or fails its checksum is left out and named
// in Files.IndexDamaged, or makes Files.TxnDamaged true, as a list of aborted transactions that is out of order does.
// An error means that the manifest itself is damaged. The result holds no reference to raw.
func DecodeMeta(raw []byte) (*Manifest, *segment.Files, error) {
	if len(raw) > MaxMeta {
		return nil, nil, fmt.Errorf("%d bytes, at most %d are allowed", len(raw), MaxMeta)
	}
	manifest, packed, err := splitFrame(raw, metaMagic)
	if err != nil {
		return nil, nil, err
	}
	m := new(Manifest)
	if err := json.Unmarshal(manifest, m); err != nil {
		return nil, nil, fmt.Errorf("manifest: %w", err)
	}
	if err := m.check(); err != nil {
		return nil, nil, fmt.Errorf("manifest: %w", err)
	}
	f := &segment.Files{Dense: m.Dense}
	if err := unpack(m, f, packed); err != nil {
		return nil, nil, fmt.Errorf("manifest: %w", err)
	}
	if m.Aborted.check() != nil {
		f.TxnDamaged = true
	} else {
		f.Aborted, f.Decided = m.Aborted, m.Decided
	}
	return m, f, nil
}

// unpack fills f with the small files that m names.
func unpack(m *Manifest, f *segment.Files, packed []byte) error {
	var end int64
	for _, s := range slots(&m.Files, f) {
		p := *s.packed
		if p == nil {
			continue
		}
		if p.Offset != end || p.Size < 0 || p.Size > MaxMeta-end {
			return fmt.Errorf("%s lies at %d with %d bytes", s.name, p.Offset, p.Size)
		}
		end += p.Size
	}
	// The files are kept as long as the segment is read; raw, with the manifest, is not.
	packed = bytes.Clone(packed[:min(end, int64(len(packed)))])
	for _, s := range slots(&m.Files, f) {
		p := *s.packed
		if p == nil {
			continue
		}
		if to := p.Offset + p.Size; to <= int64(len(packed)) {
			if file := packed[p.Offset:to:to]; sumOf(file) == p.FileSum {
				*s.bytes = file
				continue
			}
		}
		if s.bytes == &f.TxnIndex {
			f.TxnDamaged = true
		} else {
			f.IndexDamaged = append(f.IndexDamaged, s.name)
		}
	}
	return nil
}

func sumOf(b []byte) FileSum {
	sum := sha256.Sum256(b)
	return FileSum{Size: int64(len(b)), SHA256: hex.EncodeToString(sum[:])}
}
