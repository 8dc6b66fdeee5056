# Builds one static binary and puts it, with the CA certificates that TLS needs, into an empty image.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /coldtap ./cmd/coldtap

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /coldtap /coldtap
# 8080: data plane, 9090: metrics and health. Both listen on loopback by default; set listen and admin in the file.
EXPOSE 8080 9090
USER 65532:65532
ENTRYPOINT ["/coldtap"]
CMD ["serve", "--config", "/etc/coldtap/coldtap.yaml"]
