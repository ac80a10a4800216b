//! The server: its certificates, TLS, routes and what is no proper request.

mod certificates;
mod http;
mod requests;
mod tls;
