-- SPDX-FileCopyrightText: 2026 The Sumwire authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Wireshark's dissector of Sumwire's packets: fields, expert infos, and what belongs together.
-- Fields and codes are in sumwire_spec.lua, which is generated from the P4 sources and must lie beside this file.

local folder = debug.getinfo(1, "S").source:match("^@(.*[/\\])") or "./"
local spec = dofile(folder .. "sumwire_spec.lua")
local KIND = spec.kind

local sumwire = Proto("sumwire", "Sumwire")
sumwire.prefs.values = Pref.bool("Show the values in payloads", false, "Sums, elements, signs and votes, one by one")

-- -- fields ---------------------------------------------------------------------------------------------

local NAMES = { kind = spec.kinds, op = spec.op_names }
local HEX = { contributors = true, flags = true, cut = true, token = true }
local MAKERS = { [8] = "uint8", [16] = "uint16", [24] = "uint24", [32] = "uint32", [64] = "uint64" }

local function field_of(prefix, name, bits, bit_at)
  local label = prefix .. "." .. name
  if bits < 8 then
    local mask = (2 ^ bits - 1) * 2 ^ (8 - bits - bit_at % 8)
    return ProtoField.uint8(label, name, base.DEC, NAMES[name], mask)
  elseif not MAKERS[bits] then
    return ProtoField.bytes(label, name)
  end
  return ProtoField[MAKERS[bits]](label, name, HEX[name] and base.HEX or base.DEC, NAMES[name])
end

-- Fields of a header: { name, field, offset in bytes, length in bytes }.
local function layout_of(prefix, header)
  local rows, bit_at = {}, 0
  for _, each in ipairs(header) do
    local first = math.floor(bit_at / 8)
    local length = math.ceil((bit_at + each.bits) / 8) - first
    rows[#rows + 1] = { each.name, field_of(prefix, each.name, each.bits, bit_at), first, length, each.bits, bit_at % 8 }
    bit_at = bit_at + each.bits
  end
  return rows
end

local header = layout_of("sumwire", spec.header)
local extra = {}
local fields = {
  reason = ProtoField.uint8("sumwire.reason", "reason", base.DEC, spec.reasons),
  digest = ProtoField.uint32("sumwire.digest", "digest of the job's configuration", base.HEX),
  revision = ProtoField.uint8("sumwire.revision", "revision of the switch's program"),
  cut_result = ProtoField.bool("sumwire.cut.result", "the result itself is cut", 8, nil, spec.cut_result),
  cut_planes = ProtoField.uint8("sumwire.cut.planes", "planes that contributions lacked", base.DEC, nil, spec.cut_planes),
  nonce = ProtoField.uint64("sumwire.nonce", "nonce", base.HEX),
  payload = ProtoField.bytes("sumwire.payload", "payload"),
  value = ProtoField.int64("sumwire.value", "value"),
  answer_in = ProtoField.framenum("sumwire.answer_in", "answer in", base.NONE, frametype.RESPONSE),
  answers = ProtoField.framenum("sumwire.answers", "answers", base.NONE, frametype.REQUEST),
  time = ProtoField.double("sumwire.time", "seconds since the latest copy"),
  time_first = ProtoField.double("sumwire.time_first", "seconds since the first copy"),
  copy_of = ProtoField.framenum("sumwire.copy_of", "sent before in", base.NONE, frametype.DUP_ACK),
  copy = ProtoField.uint32("sumwire.copy", "copy number"),
}
local flag_fields = {}
for _, flag in ipairs(spec.flags) do
  flag_fields[#flag_fields + 1] =
    ProtoField.bool("sumwire.flags." .. flag.name:lower(), flag.name, 8, nil, flag.bit, flag.means)
end

local all = {}
for _, row in ipairs(header) do all[#all + 1] = row[2] end
for _, each in pairs(fields) do all[#all + 1] = each end
for _, each in ipairs(flag_fields) do all[#all + 1] = each end
for _, each in ipairs(spec.extra) do
  local rows = layout_of("sumwire." .. each.name, each.fields)
  extra[#extra + 1] = { header = each, rows = rows }
  for _, row in ipairs(rows) do all[#all + 1] = row[2] end
end
sumwire.fields = all

local experts = {
  stale = ProtoExpert.new("sumwire.stale", "The slot has gone on to a newer round", expert.group.SEQUENCE, expert.severity.NOTE),
  resent = ProtoExpert.new("sumwire.resent", "Sent again", expert.group.SEQUENCE, expert.severity.NOTE),
  lost = ProtoExpert.new("sumwire.lost", "Sent again because no answer came", expert.group.SEQUENCE, expert.severity.WARN),
  duplicate = ProtoExpert.new("sumwire.duplicate", "The same answer again", expert.group.SEQUENCE, expert.severity.NOTE),
  flush = ProtoExpert.new("sumwire.flush", "Closes the slot without the missing", expert.group.SEQUENCE, expert.severity.WARN),
  incomplete = ProtoExpert.new("sumwire.incomplete", "A result that lacks workers", expert.group.SEQUENCE, expert.severity.WARN),
  refused = ProtoExpert.new("sumwire.refused", "Refused", expert.group.RESPONSE_CODE, expert.severity.ERROR),
  version = ProtoExpert.new("sumwire.bad_version", "Another version", expert.group.PROTOCOL, expert.severity.ERROR),
  length = ProtoExpert.new("sumwire.bad_length", "Wrong length", expert.group.MALFORMED, expert.severity.ERROR),
  words = ProtoExpert.new("sumwire.bad_words", "Wrong number of words", expert.group.PROTOCOL, expert.severity.ERROR),
  code = ProtoExpert.new("sumwire.bad_code", "Unknown code", expert.group.PROTOCOL, expert.severity.ERROR),
}
local all_experts = {}
for _, each in pairs(experts) do all_experts[#all_experts + 1] = each end
sumwire.experts = all_experts

-- -- what belongs together ------------------------------------------------------------------------------

-- A link that is captured at several points has each packet several times: copies are counted for each point.
local points = {}
for _, name in ipairs({ "frame.interface_id", "sll.ifindex" }) do
  local known, field = pcall(Field.new, name)
  if known then points[#points + 1] = field end
end

local requests, frames, looked_again, blind
local function forget()
  -- By key: the copies of one request that were seen, and the first answer. By packet's id: what was found.
  requests, frames = {}, {}
end
local function begin()
  forget()
  looked_again, blind = {}, false
end
sumwire.init = begin
begin()

-- The first interface, and a file without interfaces, count as one.
local FIRST = "0"

local function point()
  local found = {}
  for _, field in ipairs(points) do
    local seen = field()
    if seen then found[#found + 1] = tostring(seen.value) end
  end
  return found[1] and table.concat(found, "/") or FIRST
end

-- What of a packet is kept: Wireshark takes pinfo back. Packets of a train are in one frame: `id` tells them apart, and
-- grows as they come.
local MOST_IN_TRAIN = 2 ^ 12
local function place_of(pinfo, index)
  local from, to = tostring(pinfo.src) .. ":" .. pinfo.src_port, tostring(pinfo.dst) .. ":" .. pinfo.dst_port
  local id = pinfo.number * MOST_IN_TRAIN + index
  return { id = id, number = pinfo.number, at = pinfo.rel_ts, from = from, to = to, point = point() }
end

-- An answer has its question's round, or, where the switch says its own, the question's bucket and chunk.
local function keys(packet, place, from, to)
  local who = table.concat({ place.point, from, to, packet.job, packet.slot, packet.worker }, " ")
  -- The answer to a HELLO has the job's generation in the token's place.
  if packet.op == spec.none then return { who .. " hello" } end
  who = who .. " token " .. packet.token
  return {
    who .. " round " .. packet.round,
    who .. " call " .. table.concat({ packet.op, packet.bucket, packet.chunk }, " "),
  }
end

local function note_request(packet, place, own)
  local asks = packet.kind == KIND.PROBE and " probe" or " contribution"
  local key = keys(packet, place, place.from, place.to)
  local request = requests[key[1] .. asks]
  if not request then
    request = { first_at = place.at, copies = 0 }
    requests[key[1] .. asks] = request
  end
  -- The same question again is a new one once it has its answer.
  if packet.kind == KIND.PROBE and request.answered then request.first_at, request.copies = place.at, 0 end
  if request.copies > 0 then
    own.copy, own.copy_of, own.lost = request.copies + 1, request.latest, not request.answered
  end
  request.answered = false
  request.copies, request.latest, request.latest_at = request.copies + 1, place.number, place.at
  request.latest_id = place.id
  for _, each in ipairs(key) do
    requests[each .. asks] = request
    requests[each] = request
  end
end

local ASKED = { [KIND.RESULT] = " contribution", [KIND.INFORM] = " probe" }

local function note_answer(packet, place, own)
  local key = keys(packet, place, place.to, place.from)
  local request = requests[(packet.kind == KIND.STALE and key[2] or key[1]) .. (ASKED[packet.kind] or "")]
  if not request then return end
  own.answers, own.time, own.time_first = request.latest, place.at - request.latest_at, place.at - request.first_at
  if packet.kind == KIND.RESULT then
    own.duplicate = request.result
    request.result = request.result or place.number
  end
  request.answered = true
  local asked = frames[request.latest_id]
  if asked and not asked.answer_in then asked.answer_in = place.number end
end

local function from_worker(packet)
  return packet.kind == KIND.CONTRIBUTE or packet.kind == KIND.PROBE
end

local function note(packet, place)
  local own = { point = place.point }
  frames[place.id] = own
  if from_worker(packet) then note_request(packet, place, own) else note_answer(packet, place, own) end
end

-- `tshark -2` has no interfaces in its first look at a file. Its second look tells, and all is noted anew from there on.
local function look_again(packet, place)
  if not blind and frames[place.id] and frames[place.id].point ~= place.point then
    blind = true
    forget()
    for _, each in ipairs(looked_again) do note(each.packet, each.place) end
  end
  if not frames[place.id] then note(packet, place) end
  local latest = looked_again[#looked_again]
  if not blind and (not latest or latest.place.id < place.id) then
    looked_again[#looked_again + 1] = { packet = packet, place = place }
  end
end

local function found_of(packet, pinfo, index)
  local place = place_of(pinfo, index)
  if pinfo.visited then look_again(packet, place) else note(packet, place) end
  return frames[place.id]
end

-- -- values ---------------------------------------------------------------------------------------------

local function show_elements(tree, payload, op)
  for at = 0, payload:len() - op.element_bytes, op.element_bytes do
    local cell = payload(at, op.element_bytes)
    tree:add(fields.value, cell, Int64(op.signed and cell:int() or cell:uint()))
  end
end

local function show_planes(tree, payload, op)
  local groups, plane_bytes = op.groups, spec.word_bytes
  local planes = payload:len() / plane_bytes / groups
  if planes ~= math.floor(planes) then return end
  for group = 0, groups - 1 do
    for byte = 0, plane_bytes - 1 do
      local octets = {}
      for plane = 0, planes - 1 do
        octets[plane] = payload((group * planes + plane) * plane_bytes + byte, 1):uint()
      end
      for bit = 7, 0, -1 do
        local value = 0
        for plane = 0, planes - 1 do value = value * 2 + math.floor(octets[plane] / 2 ^ bit) % 2 end
        tree:add(fields.value, payload(group * planes * plane_bytes + byte, 1), Int64(value))
      end
    end
  end
end

local function show_payload(tree, packet, payload)
  local op = spec.ops[packet.op]
  local inner = tree:add(fields.payload, payload)
  if not op or not sumwire.prefs.values then return end
  if op.element_bytes > 0 then show_elements(inner, payload, op) else show_planes(inner, payload, op) end
end

-- -- dissection -----------------------------------------------------------------------------------------

local function words_right(packet)
  if packet.kind ~= KIND.CONTRIBUTE and packet.kind ~= KIND.RESULT then return packet.words == 0 end
  local op = spec.ops[packet.op]
  if not op then return true end
  if packet.op == spec.thc then
    if packet.kind == KIND.RESULT and packet.words == spec.thc_cut then return packet.cut >= spec.cut_result end
    if packet.kind == KIND.CONTRIBUTE and packet.words == spec.thc_trimmed then return packet.trimmed end
  end
  if packet.kind == KIND.RESULT then return packet.words == op.down end
  return packet.words == op.up or packet.words == op.partial
end

local function bits_of(value, width)
  local found = {}
  for bit = 0, width - 1 do
    if math.floor(value / 2 ^ bit) % 2 == 1 then found[#found + 1] = tostring(bit) end
  end
  return table.concat(found, ", ")
end

local function flag_names(value)
  local found = {}
  for _, flag in ipairs(spec.flags) do
    if math.floor(value / flag.bit) % 2 == 1 then found[#found + 1] = flag.name end
  end
  return found
end

local function read_header(tvb)
  local packet = {}
  for _, row in ipairs(header) do
    local name, _, at, length, bits, bit_in = row[1], row[2], row[3], row[4], row[5], row[6]
    if bits == 64 then
      packet[name] = tostring(tvb(at, length):uint64())
    elseif bits < 8 then
      packet[name] = tvb(at, 1):bitfield(bit_in, bits)
    else
      packet[name] = tvb(at, length):uint()
    end
  end
  return packet
end

local function show_header(tree, tvb, packet, pinfo)
  for _, row in ipairs(header) do
    local name, field, at, length = row[1], row[2], row[3], row[4]
    local range = tvb(at, length)
    local item = tree:add(field, range)
    if name == "flags" then
      for _, flag in ipairs(flag_fields) do item:add(flag, range) end
      item:append_text(" " .. table.concat(flag_names(packet.flags), " "))
    elseif name == "contributors" and packet.contributors > 0 and not from_worker(packet) then
      item:append_text(" (workers " .. bits_of(packet.contributors, 32) .. ")")
    elseif name == "cut" then
      item:add(fields.cut_result, range)
      item:add(fields.cut_planes, range)
    elseif name == "count" and packet.kind == KIND.REFUSED then
      local reason = spec.reasons[packet.count] or ("code " .. packet.count)
      local means = spec.reasons_mean[packet.count]
      item:add(fields.reason, range)
      item:add_proto_expert_info(experts.refused, "Refused: " .. reason .. (means and ": " .. means or ""))
    elseif name == "chunk" and packet.kind == KIND.INFORM and packet.op == spec.none then
      item:add(fields.revision, tvb(at, 1))
      item:add(fields.digest, range, packet.bucket * 65536 + packet.chunk % 65536)
    elseif name == "bucket" and packet.bucket == spec.opens_run and packet.kind == KIND.CONTRIBUTE then
      item:append_text(" (opens a run)")
    elseif name == "kind" and not spec.kinds[packet.kind] then
      item:add_proto_expert_info(experts.code, "Unknown kind " .. packet.kind)
    elseif name == "op" and not spec.op_names[packet.op] then
      item:add_proto_expert_info(experts.code, "Unknown op " .. packet.op)
    elseif name == "words" and not words_right(packet) then
      item:add_proto_expert_info(experts.words)
    end
  end
end

local function show_found(tree, packet, found)
  local function add(field, value)
    if value then tree:add(field, value):set_generated() end
  end
  add(fields.answer_in, found.answer_in)
  add(fields.answers, found.answers)
  add(fields.time, found.time)
  add(fields.time_first, found.time_first)
  add(fields.copy, found.copy)
  add(fields.copy_of, found.copy_of)
  if found.lost then
    tree:add_proto_expert_info(experts.lost, "Sent again: frame " .. found.copy_of .. " has had no answer")
  end
  if found.copy then tree:add_proto_expert_info(experts.resent, "Sent again, copy " .. found.copy) end
  if found.duplicate then
    tree:add_proto_expert_info(experts.duplicate, "Duplicate: the result came first in frame " .. found.duplicate)
  end
  if packet.kind == KIND.STALE then
    tree:add_proto_expert_info(experts.stale, "Stale: the slot is in round " .. packet.round)
  end
  if packet.flush then tree:add_proto_expert_info(experts.flush) end
  if packet.kind == KIND.RESULT and packet.incomplete then tree:add_proto_expert_info(experts.incomplete) end
end

local function show_extra(tree, tvb, each)
  local inner = tree:add(sumwire, tvb, "Sumwire " .. each.header.name)
  for _, row in ipairs(each.rows) do inner:add(row[2], tvb(row[3], row[4])) end
end

-- Returns where the payload begins and ends, and where the extra headers begin; nothing for a wrong length.
local function parts(tvb, packet)
  local length = packet.words * spec.word_bytes
  local left = tvb:len() - spec.header_bytes - length
  local begin, places, sum = spec.header_bytes, {}, 0
  for _, each in ipairs(extra) do sum = sum + each.header.bytes end
  if sum > 0 and left == sum then
    local before, behind = spec.header_bytes, 0
    for _, each in ipairs(extra) do
      if each.header.before_words then
        places[#places + 1] = { each, before }
        before = before + each.header.bytes
      end
    end
    begin, behind = before, before + length
    for _, each in ipairs(extra) do
      if not each.header.before_words then
        places[#places + 1] = { each, behind }
        behind = behind + each.header.bytes
      end
    end
    left = 0
  end
  return begin, length, places, left
end

local function title(packet)
  local words = { spec.kinds[packet.kind] or ("kind " .. packet.kind) }
  if packet.kind == KIND.REFUSED then words[#words + 1] = spec.reasons[packet.count] or tostring(packet.count) end
  if packet.kind == KIND.PROBE and packet.op == spec.none then words[1] = "HELLO" end
  words[#words + 1] = spec.op_names[packet.op] or ("op " .. packet.op)
  for _, name in ipairs({ "job", "slot", "round", "worker", "chunk", "count" }) do
    words[#words + 1] = name .. "=" .. packet[name]
  end
  for _, name in ipairs(flag_names(packet.flags)) do words[#words + 1] = "[" .. name .. "]" end
  return table.concat(words, " ")
end

local NONCE_BYTES = 8

-- One packet; `index` counts those of a train. `cut`: it goes on behind what was captured. Returns its title.
local function show_packet(tvb, pinfo, tree, index, cut)
  local top = tree:add(sumwire, tvb())
  if tvb:len() < spec.header_bytes and cut then
    top:append_text(", captured in part")
    return
  elseif tvb:len() < spec.header_bytes then
    top:add_proto_expert_info(experts.length, tvb:len() .. " bytes: the header has " .. spec.header_bytes)
    return
  end
  local packet = read_header(tvb)
  for _, flag in ipairs(spec.flags) do
    packet[flag.name:lower()] = math.floor(packet.flags / flag.bit) % 2 == 1
  end
  local text = title(packet)
  top:append_text(", " .. text)
  show_header(top, tvb, packet, pinfo)
  if packet.version ~= spec.version then
    top:add_proto_expert_info(experts.version, "Version " .. packet.version .. ", this is of version " .. spec.version)
    return text
  end
  local own_ports = pinfo.src_port == spec.port or pinfo.dst_port == spec.port
  if not own_ports and packet.kind == KIND.PROBE and tvb:len() == spec.header_bytes + NONCE_BYTES then
    top:add(fields.nonce, tvb(spec.header_bytes, NONCE_BYTES))
    return text
  end
  local begin, length, places, left = parts(tvb, packet)
  if cut then
    top:append_text(", captured in part")
    show_found(top, packet, found_of(packet, pinfo, index))
    return text
  elseif left ~= 0 then
    local needs = packet.words .. " words need " .. length .. " bytes, here are " .. (length + left)
    top:add_proto_expert_info(experts.length, needs)
    return text
  end
  for _, place in ipairs(places) do show_extra(top, tvb(place[2], place[1].header.bytes), place[1]) end
  if length > 0 then show_payload(top, packet, tvb(begin, length)) end
  show_found(top, packet, found_of(packet, pinfo, index))
  return text
end

local function begins_as_packet(tvb, at)
  if tvb:len() - at < spec.header_bytes then return false end
  local packet = read_header(tvb(at):tvb())
  return packet.version == spec.version and spec.kinds[packet.kind] ~= nil and spec.op_names[packet.op] ~= nil
end

-- The length of each packet but the last of a train, which a capture at a host that sends or receives trains has in one
-- piece; otherwise all bytes.
local function length_of_each(tvb)
  if tvb:len() <= spec.header_bytes then return tvb:len() end
  local bare, sum = spec.header_bytes + read_header(tvb).words * spec.word_bytes, 0
  for _, each in ipairs(extra) do sum = sum + each.header.bytes end
  for _, length in ipairs({ bare, bare + sum }) do
    if begins_as_packet(tvb, length) then return length end
  end
  return tvb:len()
end

function sumwire.dissector(tvb, pinfo, tree)
  if tvb:len() == 0 then return 0 end
  pinfo.cols.protocol = "Sumwire"
  local each, at, count, first = length_of_each(tvb), 0, 0, nil
  while at < tvb:len() do
    local piece = tvb(at, math.min(each, tvb:len() - at)):tvb()
    local cut = at + each >= tvb:len() and tvb:reported_len() > tvb:len()
    local text = show_packet(piece, pinfo, tree, count, cut)
    if count == 0 then first = text end
    at, count = at + each, count + 1
  end
  if first then pinfo.cols.info = first .. (count > 1 and (" (and " .. (count - 1) .. " more in a train)") or "") end
  return tvb:len()
end

-- Workers ask each other for kept results at ports of their own.
local function looks_like_it(tvb, pinfo, tree)
  if tvb:len() < spec.header_bytes then return false end
  local packet = read_header(tvb)
  if packet.version ~= spec.version or not spec.kinds[packet.kind] or not spec.ops[packet.op] then return false end
  local _, _, _, left = parts(tvb, packet)
  if left ~= 0 and not (left == NONCE_BYTES and packet.kind == KIND.PROBE) then return false end
  sumwire.dissector(tvb, pinfo, tree)
  return true
end

DissectorTable.get("udp.port"):add(spec.port, sumwire)
sumwire:register_heuristic("udp", looks_like_it)
